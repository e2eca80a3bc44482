"""Hooks of MkDocs: pages of whole folders, and links to files of the repository that are no pages."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of folders that the navigation names in their place."""
    pages = Path(config.docs_dir)
    sections = [
        entries for section in config.nav or () if isinstance(section, dict) for entries in section.values()
    ]
    for entry in (entry for entries in sections for entry in entries if isinstance(entry, dict)):
        for title, folder in entry.items():
            entry[title] = [f"{folder}/{one.name}" for one in sorted((pages / folder).glob("*.md"))]
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Return a page in which links that lead out of the documentation are plain text.

    Raises:
        FileNotFoundError: a link leads nowhere.
    """
    pages = Path(config.docs_dir).resolve()
    directory = posixpath.dirname(page.file.src_uri)

    def replace(link: re.Match[str]) -> str:
        target = (pages / directory / link[2]).resolve()
        if not target.exists():
            msg = f"{page.file.src_uri}: {link[2]} is not there"
            raise FileNotFoundError(msg)
        return link[0] if target.is_relative_to(pages) else link[1]

    return _LINK.sub(replace, markdown)
