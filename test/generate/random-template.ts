// Random chat templates: expressions of every kind that the library knows, in loops, macros and blocks.

const names = [
  ..."messages|messages[0]|messages[-1].content|messages[0].content|messages[1].role|tools|tools[0]".split("|"),
  ..."tools[0].function.name|n|names|loop|flag|empty|missing|bos_token|true|false|none".split("|"),
];
const literals = [
  ..."'a'|' b<x> '|\"A-b c\"|'x,y,,z'|'line1\\nline2\\n\\nline4'|'😀é'|1|0|2|1.5|2.0".split("|"),
  ..."[1,2,3]|['b','A','c']|[]|{}|{'k': 1, 'a': 'é\"'}|(1,2)".split("|"),
];
const filters =
  "trim upper lower title capitalize length tojson string list first last reverse sort join unique int float abs items safe bool indent dictsort keys".split(
    " ",
  );
const calledFilters = [
  "join(', ')",
  "default('d')",
  "default('d', true)",
  "default(none)",
  "replace('a','bb')",
  "replace('', '-')",
  "replace('l','L',1)",
  "tojson(indent=2)",
  "tojson(ensure_ascii=true)",
  "tojson(sort_keys=true)",
  "tojson(separators=(',',':'))",
  "indent(2)",
  "indent(3, true)",
  "indent(2, true, true)",
  "selectattr('role','equalto','user')",
  "selectattr('content')",
  "rejectattr('role','eq','user')",
  "map(attribute='role')",
  "map(attribute='zip', default='?')",
  "sort(reverse=true)",
  "sort(attribute='role')",
  "int(7)",
  "float(1.0)",
  "dictsort(reverse=true)",
  "dictsort(by='value')",
];
const methods = [
  "split(',')",
  "split()",
  "split('<')",
  "split(' ', 1)",
  "split(',', 2)",
  "strip()",
  "lstrip()",
  "rstrip()",
  "upper()",
  "title()",
  "startswith('a')",
  "endswith('c')",
  "startswith(('a','A'))",
  "replace('a','zz')",
  "replace('e','', 1)",
  "get('k')",
  "get('zip', 5)",
  "items()",
  "keys()",
  "values()",
  "capitalize()",
];
const tests =
  "defined undefined none string number integer mapping iterable sequence true false boolean odd even lower upper callable".split(
    " ",
  );
const slices = ["0", "-1", "1", "'role'", "'content'", "'k'", ":1", "1:", "::-1", "-2:", ":-1", "1:3", "::2", "5:1:-1"];

/** One template. */
export function randomTemplate(random: () => number): string {
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)];
  const expression = (depth: number): string => {
    if (depth === 0 || random() < 0.2) return pick(random() < 0.5 ? names : literals);
    const inner = (): string => expression(depth - 1);
    switch (Math.floor(random() * 14)) {
      case 0:
        return `(${inner()} ${pick(["+", "~", "-", "*", "/", "//", "%", "**"])} ${inner()})`;
      case 1:
        return `(${inner()} ${pick(["==", "!=", "<", ">", "<=", ">=", "in", "not in", "and", "or"])} ${inner()})`;
      case 2:
        return `(not ${inner()})`;
      case 3:
        return `(${inner()} is ${pick(["", "not "])}${pick(tests)})`;
      case 4:
        return `(${inner()} | ${pick(filters)})`;
      case 5:
        return `(${inner()} | ${pick(calledFilters)})`;
      case 6:
        return `(${inner()}).${pick(["content", "role", "function", "name", "length", "k", "nope"])}`;
      case 7:
        return `(${inner()})[${pick(slices)}]`;
      case 8:
        return `(${inner()}).${pick(methods)}`;
      case 9:
        return `(${inner()} if ${inner()} else ${inner()})`;
      case 10:
        return `[${inner()}, ${inner()}]`;
      case 11:
        return `{'q': ${inner()}, 'r': ${inner()}}`;
      case 12:
        return `range(${pick(["3", "1, 4", "5, 0, -2", "0"])})`;
      default:
        return `(-${inner()})`;
    }
  };
  const statement = (depth: number): string => {
    if (depth === 0) return `{{ ${expression(2)} }}`;
    const inner = (): string => statement(depth - 1);
    switch (Math.floor(random() * 9)) {
      case 0:
        return `{% if ${expression(2)} %}${inner()}{% elif ${expression(1)} %}${inner()}{% else %}${inner()}{% endif %}`;
      case 1:
        return `{% for m in ${expression(1)} %}${inner()}{{ loop.index }}{% if loop.index == 2 %}{% break %}{% endif %}{% endfor %}`;
      case 2:
        return `{% for m in messages if m.role != 'system' %}{{ m.role }}:${inner()}{% if loop.last %}!{% endif %}{% endfor %}`;
      case 3:
        return `{% set v = ${expression(2)} %}{{ v }}${inner()}`;
      case 4:
        return `{% macro f(a, b='z', c=a) %}<${inner()}{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ f(${expression(1)}) }}{{ f(1, b=${expression(1)}) }}`;
      case 5:
        return `{% set ns = namespace(x=${expression(1)}, y=0) %}{% for i in range(3) %}{% set ns.y = ns.y + i %}{% endfor %}{{ ns.x }}{{ ns.y }}`;
      case 6:
        return `{% for k, v in ({'a': ${expression(1)}, 'b': 2} | items) %}{{ k }}={{ v }};{% else %}none{% endfor %}`;
      case 7:
        return `{% filter upper %}a${inner()}{% endfilter %}`;
      default:
        return `${inner()} text\n${inner()}`;
    }
  };
  return random() < 0.5 ? `{{ ${expression(3)} }}` : statement(3);
}
