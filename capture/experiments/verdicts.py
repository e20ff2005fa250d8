"""What a result has to satisfy, and how it is said; plain data in, words out."""

from typing import Any

DOCUMENTED = "Expected to have finished reduction in the prior iteration"
GRADIENT_TOLERANCE = 1e-5  # of the largest gradient; sums of float32 in another order differ less


def replicas_verdict(ranks: list[dict[str, Any]]) -> str:
    """Return whether all replicas have the same bits."""
    different = [str(n) for n, rank in enumerate(ranks) if not rank["replica_equal"]]
    return f"DIFFER on rank {', '.join(different)}" if different else "equal"


def gradients_verdict(ranks: list[dict[str, Any]]) -> str:
    """Return whether the gradients are the mean of the ranks' own ones, with the largest error."""
    errors = [error for rank in ranks for error in rank["gradient_errors"]]
    if None in errors:
        return "WRONG, not finite"
    largest = max(errors)
    size = f"{largest:.1e}" if largest else "0"
    return f"{'right' if largest <= GRADIENT_TOLERANCE else 'WRONG'}, error {size}"


def undetected_verdict(ranks: list[dict[str, Any]]) -> str:
    """Return how a step ended after one that left out a branch unknown to DDP."""
    said = [rank["error"] for rank in ranks]
    if None in said:
        return "DID NOT FAIL"
    if not all(text.startswith(DOCUMENTED) for text in said):
        return "FAILED OTHERWISE: " + " ".join(said[0].split())[:100]
    if not all(rank["group_usable"] for rank in ranks):
        return "failed as PyTorch documents, but BROKE THE PROCESS GROUP"
    return "failed as PyTorch documents"


def verdicts(configuration: dict[str, Any]) -> list[str]:
    """Return all that is said of one configuration."""
    ranks = configuration["ranks"]
    if configuration["skips"] == "always":
        return [undetected_verdict(ranks)]
    return [replicas_verdict(ranks), gradients_verdict(ranks)]


def failures(results: dict[str, Any]) -> list[str]:
    """Return a line for everything that is not as it has to be; each has a word in capitals."""
    return [
        f"{configuration['name']}: {verdict}"
        for configuration in results["configurations"]
        for verdict in verdicts(configuration)
        if _is_bad(verdict)
    ]


def _is_bad(verdict: str) -> bool:
    return not verdict.startswith(("equal", "right", "failed as")) or "BROKE" in verdict
