"use strict";
// Adds to pages that work without it.
(function () {
})();
