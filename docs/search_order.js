/* The order of what a search finds: the glossary is early, the reference follows pages that explain, and pages for
   those who change the code are late. All other numbers are those of Sphinx. */
var Scorer = {
  score: ([page, , , , score]) => {
    if (page === "glossary") return score + 11;
    if (/^reference\//.test(page)) return score - 1;
    return /^(architecture|changelog|releases|storage|tests)$/.test(page) ? score - 3 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
