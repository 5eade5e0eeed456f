#!/usr/bin/env python3
"""Checks documents in UBL by the official rules of JP PINT.

    check.py RULES DOCUMENTS

RULES: a folder with the rules of OpenPeppol as compiled stylesheets, 2025-Q4: PINT-billing-1-shared.sch.xslt and
PINT-JP-billing-1-aligned.sch.xslt. The script fetch downloads them. They are OpenPeppol's and are not part of this project.
DOCUMENTS: a folder with files *.xml, which the test documents_for_the_official_rules of docs-module writes.

Prints the broken rules of each document. Exit status 1: a document breaks a rule that is fatal, or there is no document.
"""

import hashlib
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

RULES = {
    "PINT-billing-1-shared.sch.xslt": "a5ed67fb980b60fedd45f33f35a7d301f5ac050b9d986489386593c45245c7d1",
    "PINT-JP-billing-1-aligned.sch.xslt": "5a4422978f6ab432ea2b7948a49f33a3ebb7b2cfaf76846c8f21cd2107340202",
}
SVRL = "{http://purl.oclc.org/dsdl/svrl}"


def broken(report):
    """The rules that a report of a validation names as broken: whether fatal, and the text."""
    for failed in ElementTree.fromstring(report).iter(f"{SVRL}failed-assert"):
        text = " ".join("".join(failed.itertext()).split())
        yield failed.get("flag") == "fatal", text


def main(rules, documents):
    from saxonche import PySaxonProcessor

    for name, digest in RULES.items():
        found = hashlib.sha256((rules / name).read_bytes()).hexdigest()
        if found != digest:
            sys.exit(f"{name} is not the file of 2025-Q4: SHA-256 {found}")
    files = sorted(documents.glob("*.xml"))
    fatal = 0
    with PySaxonProcessor(license=False) as processor:
        compiler = processor.new_xslt30_processor()
        stylesheets = [compiler.compile_stylesheet(stylesheet_file=str(rules / name)) for name in RULES]
        for file in files:
            for stylesheet in stylesheets:
                report = stylesheet.transform_to_string(source_file=str(file))
                for is_fatal, text in broken(report):
                    fatal += is_fatal
                    print(f"{file.name}: {'fatal' if is_fatal else 'warning'}: {text}")
    print(f"JP PINT: {len(files)} documents, {fatal} fatal rules broken")
    sys.exit(1 if fatal or not files else 0)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
