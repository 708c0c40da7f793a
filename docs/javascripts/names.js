// The theme's search is a dialog without a name, which screen readers would read out as nothing.
document.querySelector("[data-md-component=search]")?.setAttribute("aria-label", "Search");
