"""Export of claim reports as JUnit XML, with sanitised text."""

import re
from xml.etree import ElementTree as Xml

from eval_toolkit.claims import ClaimReport

__all__ = ["junit"]

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(run_id: str, report: ClaimReport) -> bytes:
    """Return JUnit XML with one test case per claim; failed warnings pass with a message.

    Parameters
    ----------
    run_id : str
        Id of the run, used as the class name of the test cases.
    report : ClaimReport
        Outcome of each claim.

    Returns
    -------
    bytes
        UTF-8 encoded XML.

    Examples
    --------
    >>> from eval_toolkit.claims import Claim, ClaimSpec, claim_gate, evaluate_claims
    >>> gate = claim_gate(Claim(name="", slice="a", min_n=9))
    >>> report = evaluate_claims({}, [ClaimSpec("enough rows", (gate,))])
    >>> b'failures="1"' in junit("r7", report)
    True
    """
    failed = [claim for claim in report.claims if not claim.passed and claim.severity == "error"]
    counts = {"tests": str(len(report.claims)), "failures": str(len(failed)), "errors": "0"}
    root = Xml.Element("testsuites", counts)
    suite = Xml.SubElement(root, "testsuite", {"name": "eval-toolkit gate", **counts})
    for claim in report.claims:
        names = {"classname": printable(run_id), "name": printable(claim.name), "time": "0"}
        case = Xml.SubElement(suite, "testcase", names)
        message = printable(claim.message)
        if claim in failed:
            failure = Xml.SubElement(case, "failure", {"message": message, "type": "claim"})
            failure.text = message
        else:
            said = Xml.SubElement(case, "system-out")
            said.text = message if claim.passed else f"warning: {message}"
    Xml.indent(root)
    body: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return body + b"\n"


def printable(text: str) -> str:
    """Return a string without control characters that are invalid in XML even if escaped."""
    return _NOT_XML.sub("\ufffd", text)
