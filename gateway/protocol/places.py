"""Where a server keeps its files, taken out of what it tells clients.

Messages name files so that an operator can find them. Clients see them relative to the root, which begins
with the table's name; where the root lies, with which credentials it is read, and where temporary files and
the sources of Rust libraries are, is for the log.
"""

import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.storage.object_stores import SCHEMES

# Options and environment variables whose values are nobody's business.
_SECRET = re.compile(r"(?i)key|secret|token|password|credential|endpoint")
_ENVIRONMENT = re.compile(r"(AWS|AZURE|GOOGLE)_\w*(KEY|SECRET|TOKEN)\w*")
_HOSTS = ("amazonaws.com", "storage.googleapis.com", "blob.core.windows.net")
# Shorter ones would be found in any text.
_MIN_SECRET_CHARACTERS = 6
# Lance and DataFusion end messages with the line that raised them.
_SOURCE = re.compile(r"(?:,\s*)?(?<![\w./@+~-])(?:[\w.@+~-]*/)+[\w.-]+\.rs(?::\d+){1,2}")
# What a path or URI within a sentence is made of, and how it ends.
_PART = r"""[^\s"'`,;()<>\[\]{}]"""
_REST = rf"{_PART}*(?<![:.])"
# What object stores say beside the kind of an error: resources, keys, what was signed.
_DETAIL = re.compile(r"<(?!Code>|Message>|Error>)(\w+)>[^<]*</\1>")
_COMMITS = re.compile(rf"\?ddbTableName={_REST}")


class Places:
    """The root of a server in all its spellings, and its secrets.

    Args:
        root: of all tables.
        environment: variables of the process, which may have credentials.
        local: directory of temporary tables.
    """

    def __init__(
        self, root: Storage, environment: Mapping[str, str] | None = None, local: Path | None = None
    ) -> None:
        variables = os.environ if environment is None else environment
        self._patterns: list[tuple[re.Pattern[str], str]] = []
        bucket = "" if root.uri.startswith("/") else root.root.partition("/")[0]
        secrets = [value for name, value in root.options.items() if _SECRET.search(name)]
        secrets += [value for name, value in variables.items() if _ENVIRONMENT.fullmatch(name)]
        if bucket:
            # Requests that failed are quoted with their address.
            hosts = "|".join(_spell(part) for part in (bucket, *_HOSTS, *_list_endpoints(root)))
            # Where the host may stand is bounded, since messages quote what clients send.
            self._replace(rf"(?<![\w/:.])https?://{_PART}{{0,200}}(?:{hosts}){_REST}", "the object store")
            roots = [f"{scheme}://{root.root}" for scheme in (*SCHEMES, "s3+ddb")]
            self._replace_root(roots, root.root[len(bucket) :])
            # Libraries leave the scheme away. The name of a bucket alone might be any word.
            slash = "/" if root.root.strip("/") == bucket else "/?"
            spelled = rf"(?<![\w/.%-]){slash}{_spell(root.root.rstrip('/'))}"
            self._replace(rf"{spelled}/+(?=[^\s/])", "")
            self._replace(rf"{spelled}(?![\w.-])/*", "the root")
        else:
            # What a link leads to is what some libraries name.
            paths = dict.fromkeys((root.root, os.path.realpath(root.root)))
            self._replace_root(paths, *paths)
        for directory in filter(None, (local, tempfile.gettempdir())):
            temporary = _spell(str(directory))
            self._replace(rf"(?:file://)?{temporary}/{_REST}", "a temporary file")
        secrets = [value for value in secrets if len(value) >= _MIN_SECRET_CHARACTERS]
        if secrets:
            # The longest first: one may begin another.
            self._replace("|".join(map(_spell, sorted(secrets, key=len, reverse=True))), "***")

    def conceal(self, text: str) -> str:
        """Return a message as clients may see it.

        >>> Places(Storage.open("/srv/lake")).conceal("/srv/lake/orders.lance/_versions/7.manifest is gone")
        'orders.lance/_versions/7.manifest is gone'
        """
        text = _COMMITS.sub("", _SOURCE.sub("", text))
        if "<Error>" in text:
            text = _DETAIL.sub("", text)
        for pattern, replacement in self._patterns:
            text = pattern.sub(replacement, text)
        return text

    def _replace(self, pattern: str, replacement: str) -> None:
        self._patterns.append((re.compile(pattern), replacement))

    def _replace_root(self, roots: Iterable[str], *keys: str) -> None:
        """Take the root away before a path below it, and call it so where it stands alone."""
        spellings = "|".join(_spell(root.rstrip("/")) for root in roots)
        if spellings:
            self._replace(rf"(?:file://)?(?:{spellings})/+(?=[^\s/])", "")
            self._replace(rf"(?:file://)?(?:{spellings})(?![\w.-])/*", "the root")
        # Object stores write keys, which have no slash in front. Only before a table they are surely that.
        keys = tuple(key.strip("/") for key in keys if key.strip("/"))
        if keys:
            spellings = "|".join(map(_spell, keys))
            self._replace(rf"(?<![\w/.%-])(?:{spellings})/+(?=(?:[^\s/]+/)?[^\s/]+\.(?:lance|view)\b)", "")


def _list_endpoints(root: Storage) -> list[str]:
    """Return hosts and ports of object stores."""
    values = [value for name, value in root.options.items() if "endpoint" in name.lower()]
    return [value.partition("://")[2].strip("/") or value for value in values]


def _spell(text: str) -> str:
    """Return a pattern for a text as it is, in URIs, and quoted by Rust or Python."""
    return "".join(_spell_character(character) for character in text)


def _spell_character(character: str) -> str:
    if character.isascii() and character.isalnum():
        return character
    encoded = quote(character, safe="")
    if encoded == character:
        encoded = f"%{ord(character):02X}"
    # Keys of object stores are encoded, and again in URIs.
    spellings = (character, f"\\{character}", encoded, encoded.lower(), encoded.replace("%", "%25"))
    return f"(?:{'|'.join(map(re.escape, dict.fromkeys(spellings)))})"
