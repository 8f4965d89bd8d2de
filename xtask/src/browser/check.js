// Checks an open page after axe was loaded; returns its problems.
(async () => {
  const problems = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  const check = (good, problem) => good || problems.push(problem);

  check(!window.pwned, 'script: it ran');
  const ours = 'html head meta title style body header main section article h1 h2 h3 p dl div dt dd table caption '
    + 'thead tbody tr th td code pre span details summary';
  const foreign = all('*').filter((element) => !ours.split(' ').includes(element.localName)
    || element.getAttributeNames().some((name) => name.startsWith('on') || ['href', 'src'].includes(name))
    || (element.closest('body') && ['meta', 'style', 'title'].includes(element.localName)));
  check(foreign.length === 0, `element: ${foreign.map((element) => element.localName).slice(0, 9)}`);
  const hidden = document.documentElement.textContent.match(/[\0-\x08\v-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/u);
  check(!hidden, `text: a raw U+${hidden?.[0].codePointAt(0).toString(16)}`);

  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
  for (const open of [false, true]) {
    for (const part of all('details')) part.open = open;
    for (const { id, nodes } of (await axe.run({ runOnly: tags })).violations) {
      problems.push(`axe: ${id}: ${nodes.length} times, such as ${nodes[0].html.slice(0, 200)}: ${nodes[0].failureSummary}`);
    }
  }
  check(document.documentElement.scrollWidth <= innerWidth, `layout: the page is ${document.documentElement.scrollWidth} wide`);

  // The caller presses the key for each of them.
  window.missed = new Set(all('*').filter((element) => {
    const { overflowX, overflowY } = getComputedStyle(element);
    const scrolls = (way) => ['auto', 'scroll'].includes(way);
    return (scrolls(overflowX) && element.scrollWidth > element.clientWidth)
      || (scrolls(overflowY) && element.scrollHeight > element.clientHeight);
  }));
  addEventListener('focusin', (event) => window.missed.delete(event.target));
  return { problems, stops: all('[tabindex], summary').length };
})()
