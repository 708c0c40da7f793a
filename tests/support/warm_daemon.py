"""Spark's daemon of Python workers, by which a task of the tests costs a tenth of the time.

Before each task a worker forgets what it knows of the paths of modules. In Python 3.11 it then reads the contents of
`pyspark.zip` and of Spark's own jar again, 0.1 s for what no test changes. The daemon also imports what each worker
would import after the fork. Of zskip nothing: workers get our code by value, and this must not hide what it lacks.
After each task a worker collects garbage, which need not look at what was imported here.
"""

import gc
import importlib
import zipimport

MODULES = ("pyarrow.compute", "pyarrow.parquet", "pyspark.worker", "pyspark.sql.pandas.serializers")

if __name__ == "__main__":
    zipimport.zipimporter.invalidate_caches = lambda self: None
    for name in MODULES:
        importlib.import_module(name)
    gc.freeze()
    importlib.import_module("pyspark.daemon").manager()
