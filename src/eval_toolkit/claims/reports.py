"""Gates and claims, and reports of their results."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed, Tabled
from eval_toolkit.artifacts import sanitize_for_json
from eval_toolkit.errors import InvalidInputError, InvalidTypeError

Severity: TypeAlias = Literal["error", "warning"]
_SEVERITIES = ("error", "warning")

# Exceptions that mean missing or malformed evidence; others, such as a full disk or a failed
# assertion, are propagated.
_ABSENT = (KeyError, ValueError, TypeError, RuntimeError, AttributeError, LookupError)


@dataclass(frozen=True, slots=True, repr=False)
class GateResult(Displayed):
    """Result of one gate.

    Examples
    --------
    >>> GateResult("required_slice:test", True).passed
    True
    """

    name: str
    passed: bool
    severity: Severity = "error"
    message: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        validation.choice(self.severity, "severity", _SEVERITIES)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "name": self.name,
            "passed": self.passed,
            "severity": self.severity,
            "message": self.message,
            "evidence": sanitize_for_json(dict(self.evidence), nan_strategy="null"),
        }


Check: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], GateResult]


@dataclass(frozen=True, slots=True)
class EvidenceGate:
    """Named check of a result and its manifest; custom, or created by a ``…_gate`` function.

    Parameters
    ----------
    name : str
        Name shown with the result.
    check : callable
        Function ``check(result, manifest) -> GateResult``; both arguments are plain dicts.
    description : str
        Description for reports.
    severity : {"error", "warning"}, default "error"
        Maximum severity of a failure; with "warning", a failure is never reported as an error. A
        check may return a lower severity.

    Examples
    --------
    >>> gate = EvidenceGate("has a run id", lambda r, m: GateResult("has a run id", "run_id" in r))
    >>> gate.evaluate({"run_id": "r1"}).passed
    True
    """

    name: str
    check: Check = field(repr=False)
    description: str = ""
    severity: Severity = "error"

    def __post_init__(self) -> None:
        validation.choice(self.severity, "severity", _SEVERITIES)

    def evaluate(
        self, result: Mapping[str, Any], manifest: Mapping[str, Any] | None = None
    ) -> GateResult:
        """Return the result of the check; missing or unreadable evidence counts as a failure.

        Parameters
        ----------
        result : mapping
            Results of a run.
        manifest : mapping, optional
            Manifest of a run; empty by default.

        Returns
        -------
        GateResult
            Result of the check. If the check raises a lookup, value, type, attribute or runtime
            error, the gate fails with the message ``Type: message``; other exceptions propagate.

        Examples
        --------
        >>> gate = EvidenceGate("broken", lambda r, m: r["nothing"])
        >>> gate.evaluate({}).message
        "KeyError: 'nothing'"
        """
        try:
            outcome: Any = self.check(result, manifest or {})
        except RecursionError:  # a RuntimeError, but unrelated to the evidence
            raise
        except _ABSENT as error:
            message = f"{type(error).__name__}: {error}"
            return GateResult(self.name, False, self.severity, message)
        if not isinstance(outcome, GateResult):
            message = f"TypeError: the check returned {outcome!r}; it must return a GateResult"
            return GateResult(self.name, False, self.severity, message)
        return replace(outcome, severity="warning") if self.severity == "warning" else outcome


@dataclass(frozen=True, slots=True)
class ClaimSpec:
    """Claim, with the gates that must pass.

    Examples
    --------
    >>> from eval_toolkit.claims import required_slice_gate
    >>> ClaimSpec("evaluated on the test set", [required_slice_gate("test")]).mode
    'claim'
    """

    name: str
    gates: Sequence[EvidenceGate]
    mode: str = "claim"
    description: str = ""

    def __post_init__(self) -> None:
        for argument in ("name", "mode"):
            value = getattr(self, argument)
            if not isinstance(value, str) or not value:
                raise InvalidInputError(f"`{argument}` is {value!r}; it must be a non-empty string")
        given: Any = self.gates
        if not isinstance(given, Iterable) or isinstance(given, str):
            raise InvalidTypeError(f"claim {self.name!r}: `gates` must be a list of gates")
        gates = tuple(given)
        object.__setattr__(self, "gates", gates)
        if not gates:
            raise InvalidInputError(
                f"claim {self.name!r}: `gates` is empty; a claim needs at least one gate"
            )
        for index, gate in enumerate(gates):
            if not isinstance(gate, EvidenceGate):
                raise InvalidTypeError(
                    f"claim {self.name!r}: gates[{index}] is {gate!r}; it must be an EvidenceGate"
                )


@dataclass(frozen=True, slots=True, repr=False)
class ClaimResult(Displayed):
    """Result of one claim: the results of its gates.

    Examples
    --------
    >>> claim = ClaimResult("small", (GateResult("n", False, "warning", "12 rows"),))
    >>> claim.passed, claim.severity, claim.message
    (False, 'warning', '12 rows')
    """

    name: str
    gates: tuple[GateResult, ...]
    mode: str = "claim"
    description: str = ""

    @property
    def passed(self) -> bool:
        """Whether all gates passed, including those of severity "warning"."""
        return all(gate.passed for gate in self.gates)

    @property
    def severity(self) -> Severity:
        """Highest severity among the failed gates, or among all if none failed."""
        counted = self._failed or self.gates
        return "error" if any(gate.severity == "error" for gate in counted) else "warning"

    @property
    def message(self) -> str:
        """Messages of the failed gates, or of all gates if none failed."""
        return "; ".join(gate.message for gate in self._failed or self.gates if gate.message)

    @property
    def evidence(self) -> dict[str, Any]:
        """Evidence of each gate, by the gate's name."""
        return {gate.name: dict(gate.evidence) for gate in self.gates}

    @property
    def _failed(self) -> tuple[GateResult, ...]:
        return tuple(gate for gate in self.gates if not gate.passed)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "name": self.name,
            "mode": self.mode,
            "description": self.description,
            "passed": self.passed,
            "severity": self.severity,
            "message": self.message,
            "gates": [gate.to_dict() for gate in self.gates],
        }


@dataclass(frozen=True, slots=True, repr=False)
class ClaimReport(Tabled):
    """All claims with their results.

    Parameters
    ----------
    claims : sequence of ClaimResult, or mapping
        Claim results, or a mapping from names to a ClaimResult or to the results of a claim's
        gates.

    Raises
    ------
    InvalidTypeError
        If an entry is not a claim.
    InvalidInputError
        If the key of a claim differs from its name.

    Examples
    --------
    >>> report = ClaimReport((ClaimResult("small", (GateResult("n", False, "warning"),)),))
    >>> report.has_failures(), report.has_failures(include_warnings=True)
    (False, True)
    """

    claims: tuple[ClaimResult, ...]

    def __post_init__(self) -> None:
        given: Any = self.claims
        if isinstance(given, Mapping):
            claims = [_named_claim(name, claim) for name, claim in given.items()]
        elif isinstance(given, Iterable) and not isinstance(given, (str, ClaimResult)):
            claims = list(given)
        else:
            raise InvalidTypeError(
                f"`claims` is {given!r:.80}; it must be a list or a mapping by name"
            )
        for index, claim in enumerate(claims):
            if not isinstance(claim, ClaimResult):
                raise InvalidTypeError(f"claims[{index}] is {claim!r}; it must be a ClaimResult")
        object.__setattr__(self, "claims", tuple(claims))

    def has_failures(self, *, include_warnings: bool = False) -> bool:
        """Return whether a gate of severity "error" failed, or optionally any gate."""
        return any(
            not claim.passed and (include_warnings or claim.severity == "error")
            for claim in self.claims
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat dict per claim."""
        return [
            {
                "claim": claim.name,
                "passed": claim.passed,
                "severity": claim.severity,
                "message": claim.message,
            }
            for claim in self.claims
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "claims": [claim.to_dict() for claim in self.claims],
            "has_failures": self.has_failures(),
        }


def _named_claim(name: Any, claim: Any) -> ClaimResult:
    """Return the claim with a name, given as a result or as the results of its gates."""
    if isinstance(claim, ClaimResult):
        if claim.name != name:
            raise InvalidInputError(
                f"claims[{name!r}] has the name {claim.name!r}; the key must equal the name"
            )
        return claim
    gates = tuple(claim) if isinstance(claim, Sequence) else ()
    if not gates or not all(isinstance(gate, GateResult) for gate in gates):
        raise InvalidTypeError(
            f"claims[{name!r}] is {claim!r:.80}; it must be a ClaimResult or a list of GateResults"
        )
    return ClaimResult(str(name), gates)


def evaluate_claims(
    result: Any, claim_specs: Iterable[ClaimSpec], *, manifest: Any = None
) -> ClaimReport:
    """Evaluate all gates of all claims, without stopping at failures.

    Parameters
    ----------
    result : mapping or object with to_dict
        Results of a run.
    claim_specs : iterable of ClaimSpec
        Claims to evaluate. Names must be unique.
    manifest : mapping or object with to_dict, optional
        Manifest of the run, for gates that require it.

    Returns
    -------
    ClaimReport
        Results in the order of the claims.

    Raises
    ------
    InvalidTypeError
        If the result or manifest has an unsupported type, or a claim is not a ClaimSpec.
    InvalidInputError
        If two claims have the same name.

    Examples
    --------
    >>> from eval_toolkit.claims import metric_threshold_gate
    >>> result = {"by_slice": {"test": {"by_scorer": {"guard": {"pr_auc": 0.91}}}}}
    >>> gate = metric_threshold_gate("test", "guard", "pr_auc", op=">=", threshold=0.9)
    >>> evaluate_claims(result, [ClaimSpec("good enough", [gate])]).has_failures()
    False
    """
    payload = _payload(result, "result")
    context = {} if manifest is None else _payload(manifest, "manifest")
    if isinstance(claim_specs, ClaimSpec):
        raise InvalidTypeError(f"`claim_specs` must be a list; write [{claim_specs.name!r}]")
    results: dict[str, ClaimResult] = {}
    for index, spec in enumerate(claim_specs):
        if not isinstance(spec, ClaimSpec):
            raise InvalidTypeError(f"claim_specs[{index}] is {spec!r}; it must be a ClaimSpec")
        if spec.name in results:
            raise InvalidInputError(
                f"claim_specs[{index}] has the name {spec.name!r} twice; names must be unique"
            )
        gates = tuple(gate.evaluate(payload, context) for gate in spec.gates)
        results[spec.name] = ClaimResult(spec.name, gates, spec.mode, spec.description)
    return ClaimReport(tuple(results.values()))


def _payload(thing: Any, name: str) -> Mapping[str, Any]:
    plain = thing.to_dict() if hasattr(thing, "to_dict") else thing
    if not isinstance(plain, Mapping):
        raise InvalidTypeError(
            f"`{name}` must be a mapping or have a to_dict method, got {type(thing).__name__}"
        )
    return plain
