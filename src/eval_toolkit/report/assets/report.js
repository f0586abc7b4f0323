"use strict";
// Progressive enhancement of a page that works without scripts: interactive charts, sortable
// tables, a threshold slider, and a switch between light and dark themes.
(function () {
  const root = document.documentElement;

  function theme() {
    const button = document.querySelector(".theme");
    if (!button) return;
    const order = ["auto", "light", "dark"];
    let at = 0;
    button.hidden = false;
    button.addEventListener("click", function () {
      at = (at + 1) % order.length;
      if (order[at] === "auto") root.removeAttribute("data-theme");
      else root.setAttribute("data-theme", order[at]);
      button.textContent = "Theme: " + order[at];
    });
  }

  function draw(figure) {
    const spec = figure.querySelector("script.spec");
    const place = figure.querySelector(".chart");
    if (!spec || !place || place.dataset.drawn) return;
    place.dataset.drawn = "1";
    const still = place.querySelector("svg");
    // Inserted at once, so that its width is known, but hidden until it is complete.
    const live = document.createElement("div");
    live.className = "coming";
    place.append(live);
    // Interpret expressions instead of compiling them, so no text in a chart becomes code.
    vegaEmbed(live, JSON.parse(spec.textContent), {
      mode: "vega-lite", renderer: "svg", actions: false, ast: true, hover: false,
      tooltip: { theme: "custom", disableDefaultStyle: true }, logLevel: 1
    }).then(function () {
      live.classList.remove("coming");
      if (still) still.remove();
      if (place.scrollWidth > place.clientWidth) { // must then be reachable by keyboard
        place.tabIndex = 0;
        place.setAttribute("role", "group");
        place.setAttribute("aria-label", "Chart that scrolls sideways");
      }
    }).catch(function () { live.remove(); /* keep the static image */ });
  }

  function charts() {
    if (typeof vegaEmbed === "undefined") return;
    const figures = document.querySelectorAll("figure[data-chart]");
    if (!("IntersectionObserver" in window)) { figures.forEach(draw); return; }
    const seen = new IntersectionObserver(function (entries) {
      entries.forEach(function (entry) {
        if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target.closest("figure")); }
      });
    }, { rootMargin: "300px" });
    // Observe the chart, not its figure: a chart hidden on narrow screens is drawn once visible.
    figures.forEach(function (figure) { seen.observe(figure.querySelector(".chart")); });
  }

  function key(cell) {
    // Numeric cells have a data-sort attribute; all others are sorted by their text.
    const given = cell.dataset.sort;
    return given === undefined ? cell.textContent.trim().toLowerCase() : Number(given);
  }

  function sortable() {
    document.querySelectorAll("table[data-sortable]").forEach(function (table) {
      const body = table.tBodies[0];
      table.querySelectorAll("thead th").forEach(function (head, column) {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "sort";
        while (head.firstChild) button.append(head.firstChild);
        head.append(button);
        button.addEventListener("click", function () {
          const down = head.getAttribute("aria-sort") === "ascending";
          table.querySelectorAll("th[aria-sort]").forEach(function (other) { other.removeAttribute("aria-sort"); });
          head.setAttribute("aria-sort", down ? "descending" : "ascending");
          const rows = Array.from(body.rows).map(function (row, place) {
            return { row: row, place: place, key: key(row.cells[column]) };
          });
          rows.sort(function (a, b) {
            const words = typeof a.key !== typeof b.key;
            const order = words ? (typeof a.key === "number" ? -1 : 1)
              : a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
            return (down ? -order : order) || a.place - b.place;
          });
          rows.forEach(function (one) { body.append(one.row); });
        });
      });
    });
  }

  // Three digits, halves to even as the library rounds; only odd sixteenths are such halves.
  function rate(value) {
    const sixteenths = value * 16;
    if (Number.isInteger(sixteenths) && sixteenths % 2 !== 0) {
      const below = Math.floor(value * 1000);
      return ((below % 2 === 0 ? below : below + 1) / 1000).toFixed(3);
    }
    return value.toFixed(3);
  }

  function whole(value) {
    return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
  }

  // Format a threshold with six digits, and in full if digits were dropped.
  function digits(value) {
    const short = Number(value.toPrecision(6));
    return short === value ? { short: String(value), exact: "" }
      : { short: String(short), exact: String(value) };
  }

  function at(counts, place) {
    const tp = counts.tp[place], fp = counts.fp[place];
    const fn = counts.n_positive - tp, tn = counts.n_negative - fp;
    const of = function (part, all) { return all ? part / all : null; };
    return {
      threshold: counts.thresholds[place], tp: tp, fp: fp, fn: fn, tn: tn,
      precision: of(tp, tp + fp), recall: of(tp, tp + fn), fpr: of(fp, fp + tn),
      f1: of(2 * tp, 2 * tp + fp + fn)
    };
  }

  function explorer(box) {
    const counts = JSON.parse(box.querySelector("script.counts").textContent);
    const slider = box.querySelector("input[type=range]");
    const shown = function (name) { return box.querySelector('[data-shown="' + name + '"]'); };
    const cost = function (name) {
      const text = box.querySelector('[data-cost="' + name + '"]').value;
      const value = Number(text);
      return text !== "" && Number.isFinite(value) && value >= 0 ? value : null;
    };

    // The slider is on the scale of the scores; values between two thresholds select the higher one.
    let place = counts.start;
    function nearest(value) {
      let low = 0, high = counts.thresholds.length - 1;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (counts.thresholds[middle] < value) low = middle + 1; else high = middle;
      }
      return low;
    }

    function show() {
      const now = at(counts, place);
      const words = [];
      ["precision", "recall", "fpr", "f1"].forEach(function (name) {
        const told = now[name] === null ? "undefined" : rate(now[name]);
        shown(name).textContent = told;
        shown(name).classList.toggle("status-skipped", now[name] === null);
        words.push({ fpr: "false positive rate", f1: "F1" }[name] || name, told);
      });
      ["tp", "fp", "fn", "tn"].forEach(function (name) { shown(name).textContent = whole(now[name]); });
      const told = digits(now.threshold);
      shown("threshold").textContent = told.short;
      shown("threshold").dataset.threshold = String(now.threshold);
      shown("threshold").title = told.exact ? "exactly " + told.exact : "";
      slider.setAttribute("aria-valuetext", told.short + ": " +
        words.reduce(function (said, word, place) { return said + (place % 2 ? " " : place ? ", " : "") + word; }, ""));
      const alarm = cost("fp"), miss = cost("fn");
      const priced = alarm !== null && miss !== null;
      const total = priced ? alarm * now.fp + miss * now.fn : null;
      shown("cost").textContent = priced ? String(Number(total.toPrecision(12))) : "undefined";
      shown("cost-per-row").textContent = priced
        ? "(" + (total / (counts.n_positive + counts.n_negative)).toPrecision(3) + " per row)"
        : "(enter costs of at least 0)";
      box.querySelectorAll("[data-jump]").forEach(function (button) {
        button.setAttribute("aria-pressed", String(Number(button.dataset.jump) === place));
      });
    }

    function go(to) {
      place = Math.min(Math.max(to, 0), counts.thresholds.length - 1);
      slider.value = String(counts.thresholds[place]);
      show();
    }

    function cheapest() {
      const alarm = cost("fp"), miss = cost("fn");
      if (alarm === null || miss === null) return;
      let best = 0, least = Infinity;
      counts.thresholds.forEach(function (_, to) {
        const now = at(counts, to), total = alarm * now.fp + miss * now.fn;
        if (total < least) { least = total; best = to; }
      });
      go(best);
    }

    slider.addEventListener("input", function () { place = nearest(Number(slider.value)); show(); });
    slider.addEventListener("keydown", function (event) { // arrow keys step through the thresholds
      const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (step) { event.preventDefault(); go(place + step); }
    });
    box.querySelectorAll("[data-cost]").forEach(function (input) { input.addEventListener("input", show); });
    box.querySelectorAll("[data-jump]").forEach(function (button) {
      button.addEventListener("click", function () { go(Number(button.dataset.jump)); });
    });
    box.querySelector("[data-cheapest]").addEventListener("click", cheapest);
    go(counts.start);
    box.hidden = false;
    const table = box.parentElement.querySelector(".without-script");
    if (table) table.open = false;
  }

  function explorers() {
    document.querySelectorAll("[data-explorer]").forEach(explorer);
    document.querySelectorAll("select[data-panels]").forEach(function (choice) {
      const panels = document.querySelectorAll('[data-panel-of="' + choice.dataset.panels + '"]');
      const show = function () {
        panels.forEach(function (panel, place) { panel.hidden = place !== Number(choice.value); });
      };
      choice.addEventListener("change", show);
      choice.closest("[hidden]").hidden = false;
      show();
    });
  }

  // Expand all collapsed details for printing.
  function paper() {
    let opened = [];
    window.addEventListener("beforeprint", function () {
      opened = Array.from(document.querySelectorAll("details:not([open])"));
      opened.forEach(function (one) { one.open = true; });
    });
    window.addEventListener("afterprint", function () {
      opened.forEach(function (one) { one.open = false; });
      opened = [];
    });
  }

  // Run separately, so that an error in one feature does not disable the others.
  [theme, explorers, sortable, paper, charts].forEach(function (part) {
    try { part(); } catch (error) { /* the page works without it */ }
  });
})();
