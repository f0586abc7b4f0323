"""The embedded model in fresh processes: questions scored and texts generated, loading included.

Run as a program (``python -m benchmarks.embedded questions|texts``) it does the work once and
prints what came out and its peak memory.
"""

import asyncio
import json
import sys

from benchmarks._case import Bar, Case, Measurement
from benchmarks._timing import Effort, Timing

CAPITALS = {
    "Afghanistan": "Kabul",
    "Albania": "Tirana",
    "Algeria": "Algiers",
    "Angola": "Luanda",
    "Argentina": "Buenos Aires",
    "Armenia": "Yerevan",
    "Australia": "Canberra",
    "Austria": "Vienna",
    "Azerbaijan": "Baku",
    "Bahrain": "Manama",
    "Bangladesh": "Dhaka",
    "Belarus": "Minsk",
    "Belgium": "Brussels",
    "Bosnia and Herzegovina": "Sarajevo",
    "Botswana": "Gaborone",
    "Brazil": "Brasília",
    "Bulgaria": "Sofia",
    "Cambodia": "Phnom Penh",
    "Cameroon": "Yaoundé",
    "Canada": "Ottawa",
    "Chad": "N'Djamena",
    "Chile": "Santiago",
    "China": "Beijing",
    "Colombia": "Bogotá",
    "Costa Rica": "San José",
    "Croatia": "Zagreb",
    "Cuba": "Havana",
    "Cyprus": "Nicosia",
    "Denmark": "Copenhagen",
    "Ecuador": "Quito",
    "Egypt": "Cairo",
    "Estonia": "Tallinn",
    "Ethiopia": "Addis Ababa",
    "Fiji": "Suva",
    "Finland": "Helsinki",
    "France": "Paris",
    "Georgia": "Tbilisi",
    "Germany": "Berlin",
    "Ghana": "Accra",
    "Greece": "Athens",
    "Guatemala": "Guatemala City",
    "Haiti": "Port-au-Prince",
    "Honduras": "Tegucigalpa",
    "Hungary": "Budapest",
    "Iceland": "Reykjavik",
    "India": "New Delhi",
    "Indonesia": "Jakarta",
    "Iran": "Tehran",
    "Iraq": "Baghdad",
    "Ireland": "Dublin",
    "Israel": "Jerusalem",
    "Italy": "Rome",
    "Jamaica": "Kingston",
    "Japan": "Tokyo",
    "Jordan": "Amman",
    "Kazakhstan": "Astana",
    "Kenya": "Nairobi",
    "Kuwait": "Kuwait City",
    "Laos": "Vientiane",
    "Latvia": "Riga",
    "Lebanon": "Beirut",
    "Libya": "Tripoli",
    "Lithuania": "Vilnius",
    "Madagascar": "Antananarivo",
    "Malaysia": "Kuala Lumpur",
    "Mali": "Bamako",
    "Mexico": "Mexico City",
    "Mongolia": "Ulaanbaatar",
    "Morocco": "Rabat",
    "Mozambique": "Maputo",
    "Nepal": "Kathmandu",
    "New Zealand": "Wellington",
    "Nicaragua": "Managua",
    "Niger": "Niamey",
    "Nigeria": "Abuja",
    "Norway": "Oslo",
    "Oman": "Muscat",
    "Pakistan": "Islamabad",
    "Panama": "Panama City",
    "Paraguay": "Asunción",
    "Peru": "Lima",
    "Philippines": "Manila",
    "Poland": "Warsaw",
    "Portugal": "Lisbon",
    "Qatar": "Doha",
    "Romania": "Bucharest",
    "Russia": "Moscow",
    "Rwanda": "Kigali",
    "Saudi Arabia": "Riyadh",
    "Senegal": "Dakar",
    "Serbia": "Belgrade",
    "Slovenia": "Ljubljana",
    "Somalia": "Mogadishu",
    "Spain": "Madrid",
    "Sweden": "Stockholm",
    "Thailand": "Bangkok",
    "Turkey": "Ankara",
    "Uganda": "Kampala",
    "Ukraine": "Kyiv",
    "Zambia": "Lusaka",
}
N_TEXTS, N_TOKENS = 32, 64


def questions() -> list[tuple[str, tuple[str, ...]]]:
    """Return prompts and choices; the right choice comes first."""
    names = list(CAPITALS.values())
    return [
        (
            f"Question: What is the capital of {country}?\nAnswer:",
            tuple(f" {names[(at + step) % len(names)]}" for step in (0, 7, 31, 58)),
        )
        for at, country in enumerate(CAPITALS)
    ]


async def _answer_questions() -> dict[str, float]:
    from eval_toolkit.models.embedded import EmbeddedModel
    from eval_toolkit.requests import LoglikelihoodRequest

    model = EmbeddedModel()
    asked = [LoglikelihoodRequest(prompt, choices) for prompt, choices in questions()]
    answers = await asyncio.gather(*(model.loglikelihood(request) for request in asked))
    right = sum(max(answer.loglikelihoods) == answer.loglikelihoods[0] for answer in answers)
    return {"right": right, "n": len(answers)}


async def _write_texts() -> dict[str, float]:
    from eval_toolkit.messages import Message, Role
    from eval_toolkit.models.embedded import EmbeddedModel
    from eval_toolkit.requests import GenerateRequest

    model = EmbeddedModel()
    asked = [
        GenerateRequest(
            (Message(Role.USER, f"Tell me something about {country}."),), max_tokens=N_TOKENS
        )
        for country in list(CAPITALS)[:N_TEXTS]
    ]
    answers = await asyncio.gather(*(model.generate(request) for request in asked))
    return {"tokens": sum(answer.completion_tokens or 0 for answer in answers)}


def _questions(effort: Effort) -> Measurement:
    runs, said = _runs("questions", effort)
    note = (
        f"{said['right']} of {said['n']} right; peak memory {said['peak_kb'] / 1e6:.2f} GB; "
        "loading included"
    )
    return Measurement(Timing(runs), note=note)


def _texts(effort: Effort) -> Measurement:
    runs, said = _runs("texts", effort)
    rate = said["tokens"] / (min(runs) / 1e9)
    note = f"{said['tokens']} tokens, {rate:.0f} per CPU second with loading"
    return Measurement(Timing(runs), note=note)


def _runs(job: str, effort: Effort) -> tuple[tuple[float, ...], dict[str, float]]:
    from benchmarks.processes import run_python

    runs = [run_python("-m", "benchmarks.embedded", job) for _ in range(effort.heavy_rounds)]
    return tuple(run.cpu_ns for run in runs), json.loads(runs[-1].output)


CASES = (
    Case(
        "embedded_questions",
        "Embedded model: 100 four-choice questions, one thread",
        Bar("seconds", 8.0),
        _questions,
    ),
    Case(
        "embedded_texts",
        f"Embedded model: {N_TEXTS} answers of {N_TOKENS} tokens, one thread",
        Bar("seconds", 30.0),
        _texts,
    ),
)

if __name__ == "__main__":
    from benchmarks._child import peak_kilobytes

    work = {"questions": _answer_questions, "texts": _write_texts}[sys.argv[1]]
    print(json.dumps({**asyncio.run(work()), "peak_kb": peak_kilobytes()}))
