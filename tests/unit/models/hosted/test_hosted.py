"""Anthropic, Gemini, Bedrock and Azure OpenAI against emulations from their documentation."""

import asyncio
import json
from typing import Any

import pytest
from tests.support.each import each
from tests.support.hosted_servers import (
    KEY,
    AnthropicApp,
    BedrockApp,
    Emulated,
    GeminiApp,
    Hosted,
    OpenAIApp,
)

from eval_toolkit.errors import InvalidInputError, ModelError
from eval_toolkit.models import (
    Anthropic,
    AzureOpenAI,
    Bedrock,
    Gemini,
    OpenAICompatible,
    load_model,
)
from eval_toolkit.models.messages import Message
from eval_toolkit.models.openai_compatible.http_model import HttpModel
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import RawCompletion
from eval_toolkit.models.servers import user_server
from eval_toolkit.plugins import making, read_from
from eval_toolkit.protocols import Model
from eval_toolkit.testing import check_model

SUM = "What is 2 + 3?"
APIS: dict[str, Any] = {
    "anthropic": (AnthropicApp, Anthropic, "claude-test"),
    "gemini": (GeminiApp, Gemini, "gemini-test"),
    "bedrock": (BedrockApp, Bedrock, "vendor.test-v1:0"),
    "azure": (OpenAIApp, AzureOpenAI, "gpt-test"),
}
STREAMING = [name for name in APIS if name != "bedrock"]


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    monkeypatch.setenv("AWS_REGION", BedrockApp.region)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", BedrockApp.access)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", BedrockApp.secret)
    monkeypatch.setenv("AWS_SESSION_TOKEN", BedrockApp.token)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")


def made(api: str, server: Emulated, **options: Any) -> HttpModel:
    _, kind, name = APIS[api]
    own = {} if api == "bedrock" else {"api_key_env": "THE_KEY"}
    model: HttpModel = kind(name, base_url=server.url, retry_wait_s=0.0, **own, **options)
    return model


def ask(
    api: str,
    app: Hosted,
    messages: Any = SUM,
    *,
    told: dict[str, Any] | None = None,
    **options: Any,
) -> RawCompletion:
    if isinstance(messages, str):
        messages = (Message("user", messages),)
    with Emulated(app) as server:
        model: Any = made(api, server, **options)
        answer: RawCompletion = asyncio.run(
            model.generate(GenerateRequest(messages, **(told or {})))
        )
    return answer


def failure(api: str, fault: str, **options: Any) -> ModelError:
    app = APIS[api][0]({"What": [fault] * 9})
    with pytest.raises(ModelError) as caught:
        ask(api, app, max_tries=1, total_timeout_s=60.0, **options)
    assert KEY not in str(caught.value)
    return caught.value


@each("api", list(APIS))
def test_it_answers_and_describes_itself(api: str) -> None:
    app = APIS[api][0](thoughts="Two and three", cached=2)
    messages = (
        Message("system", "Be brief."),
        Message("user", "Hello."),
        Message("user", SUM),
    )
    told = {"max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "stop": ("\n\n", "END")}
    with Emulated(app) as server:
        model: Any = made(api, server, prices=(2.0, 10.0))
        assert isinstance(model, Model)
        described = model.describe()
        assert described == json.loads(json.dumps(described))
        assert (described["kind"], described["model"]) == (api, APIS[api][2])
        assert described["base_url"].startswith("127.0.0.1:")
        answer = asyncio.run(model.generate(GenerateRequest(messages, **told)))
    assert (answer.text, answer.finish_reason, answer.reasoning) == ("5", "stop", "Two and three")
    # The whole prompt with its cached part, and the answer with its reasoning, for every service.
    assert answer.usage.cached_tokens == 2
    assert answer.completion_tokens == 4
    assert answer.reasoning_tokens == (None if api == "bedrock" else 3)
    assert answer.prompt_tokens == 14
    assert answer.usage.cost == pytest.approx((14 * 2.0 + 4 * 10.0) / 1e6)
    assert model.totals().n_answers == 1
    assert answer.usage.first_token_s is None


@each("api", list(APIS))
def test_a_text_is_a_message_and_messages_of_one_role_are_one_turn(api: str) -> None:
    app = APIS[api][0]()
    with Emulated(app) as server:
        model: Any = made(api, server)

        async def main() -> list[RawCompletion]:
            cue = (Message("user", SUM), Message("assistant", "Answer: "))
            return [
                await model.generate(GenerateRequest(SUM)),
                await model.generate(GenerateRequest(cue)),
            ]

        text, cued = asyncio.run(main())
    assert (text.text, cued.text) == ("5", "5")
    assert "Answer:" in app.prompt(app.bodies[1])


def test_the_bodies_are_those_of_the_documentation() -> None:
    bodies = {}
    messages = (Message("system", "Be brief."), Message("user", "A"), Message("user", "B"))
    told = {"max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "stop": (" ", "END"), "seed": 7}
    for api in APIS:
        app = APIS[api][0]()
        ask(api, app, messages, told=told)
        (bodies[api],) = app.bodies
    texts = [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    assert bodies["anthropic"] == {
        "model": "claude-test",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [{"role": "user", "content": texts}],
        "temperature": 0.5,
        "top_p": 0.9,
        "stop_sequences": ["END"],
    }
    assert bodies["gemini"] == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "A"}, {"text": "B"}]}],
        "generationConfig": {
            "temperature": 0.5,
            "topP": 0.9,
            "maxOutputTokens": 9,
            "stopSequences": ["END"],
            "seed": 7,
        },
    }
    assert bodies["bedrock"] == {
        "system": [{"text": "Be brief."}],
        "messages": [{"role": "user", "content": [{"text": "A"}, {"text": "B"}]}],
        "inferenceConfig": {
            "maxTokens": 9,
            "temperature": 0.5,
            "topP": 0.9,
            "stopSequences": ["END"],
        },
    }
    assert bodies["azure"]["max_completion_tokens"] == 9
    assert bodies["azure"]["seed"] == 7


@each("api", list(APIS))
def test_stop_strings_that_a_service_refuses_still_end_answers(api: str) -> None:
    app = APIS[api][0](text="one\n\ntwo END three")
    answer = ask(api, app, told={"stop": ("\n\n", "END")})
    assert (answer.text, answer.finish_reason) == ("one", "stop")


@each(
    ("api", "fault", "kind", "status", "words"),
    [
        ("anthropic", "401", "auth", 401, "THE_KEY is set"),
        ("anthropic", "404", "not_found", 404, "What is 2"),
        ("anthropic", "429", "rate_limited", 429, "too many requests"),
        ("anthropic", "529", "server", 529, "Overloaded"),
        ("anthropic", "500", "server", 500, "internal"),
        ("anthropic", "too-long", "too_long", 400, "prompt is too long"),
        ("anthropic", "credit", "auth", 400, "credit balance"),
        ("anthropic", "echo-key", "bad_request", 400, "bad key"),
        ("anthropic", "refusal", "refused", 200, "refused: refusal"),
        ("gemini", "400-key", "auth", 400, "API key not valid"),
        ("gemini", "403", "auth", 403, "THE_KEY is set"),
        ("gemini", "404", "not_found", 404, "What is 2"),
        ("gemini", "429-wait", "rate_limited", 429, "exceeded your current quota"),
        ("gemini", "503", "server", 503, "overloaded"),
        ("gemini", "too-long", "too_long", 400, "exceeds the maximum number"),
        ("gemini", "blocked", "refused", 200, "the prompt was blocked: PROHIBITED_CONTENT"),
        ("gemini", "refusal", "refused", 200, "refused: SAFETY"),
        ("bedrock", "403", "auth", 403, "InvalidSignatureException"),
        ("bedrock", "403-token", "auth", 403, "UnrecognizedClientException"),
        ("bedrock", "404", "not_found", 400, "model identifier is invalid"),
        ("bedrock", "424", "server", 424, "ModelErrorException"),
        ("bedrock", "429", "rate_limited", 429, "ThrottlingException"),
        ("bedrock", "429-quota", "rate_limited", 400, "ServiceQuotaExceededException"),
        ("bedrock", "too-long", "too_long", 400, "Input is too long"),
        ("bedrock", "refusal", "refused", 200, "refused: content_filtered"),
        ("azure", "401", "auth", 401, "invalid subscription key"),
        ("azure", "404", "not_found", 404, "What is 2"),
        ("azure", "429", "rate_limited", 429, "exceeded the limit"),
        ("azure", "filtered", "refused", 400, "content management policy"),
        ("azure", "refusal", "refused", 200, "content filter"),
    ],
)
def test_failures_have_their_kinds(
    api: str, fault: str, kind: str, status: int, words: str
) -> None:
    error = failure(api, fault)
    assert (error.kind, error.status) == (kind, status), str(error)
    assert words in str(error)


def test_a_delay_in_the_body_of_an_error_is_known() -> None:
    error: Any = failure("gemini", "429-wait")
    assert error.wait_s == pytest.approx(34.074824224)
    assert error.retryable  # unlike unpaid bills, of which it seems to speak


@each(
    ("api", "fault"),
    [("anthropic", "529"), ("gemini", "429"), ("bedrock", "429"), ("azure", "429")],
)
def test_passing_failures_are_tried_again(api: str, fault: str) -> None:
    answer = ask(api, APIS[api][0]({"What": [fault, fault]}))
    assert (answer.text, answer.usage.tries) == ("5", 3)


@each("api", list(APIS))
def test_parameters_that_the_service_refuses_are_failures(api: str) -> None:
    with pytest.raises(ModelError, match="400") as caught:
        ask(api, APIS[api][0](), extra_body={"made_up": 1})
    assert caught.value.kind == "bad_request"
    assert "made_up" in str(caught.value)
    with pytest.raises(ModelError, match=r"temperature"):
        ask(api, APIS[api][0](), told={"temperature": 7.0})


@each("api", list(APIS))
def test_an_answer_cut_by_length_says_so(api: str) -> None:
    answer = ask(api, APIS[api][0]({"What": ["cut"]}))
    assert (answer.text, answer.finish_reason) == ("5", "length")
    empty = ask(api, APIS[api][0]({"What": ["cut"]}, text=" ", thoughts="Hm."))
    assert empty.finish_reason == "length"


@each(("api", "fault"), [("anthropic", "partly"), ("azure", "partly"), ("bedrock", "guarded")])
def test_a_part_of_an_answer_that_was_stopped_by_a_filter_says_so(api: str, fault: str) -> None:
    answer = ask(api, APIS[api][0]({"What": [fault]}))
    assert (answer.text, answer.finish_reason) == ("5", "content_filter")


@each("api", list(APIS))
def test_log_likelihoods_are_refused_by_name(api: str) -> None:
    app = APIS[api][0]()
    with Emulated(app) as server:
        model: Any = made(api, server)
        with pytest.raises(
            ModelError, match=f"^{api}:{APIS[api][2]}: .* does not return log-likelihoods"
        ) as caught:
            asyncio.run(model.loglikelihood(LoglikelihoodRequest("2 + 2 =", (" 4", " 5"))))
    assert caught.value.kind == "unsupported"
    assert app.bodies == []


@each("api", list(APIS))
def test_it_is_a_model_for_the_contract(api: str) -> None:
    with Emulated(APIS[api][0]()) as server:
        check_model(made(api, server), prompts=[SUM, "What is 4 + 5?"])


@each("api", STREAMING)
@each("fault", ["", "cut"])
def test_a_streamed_answer_is_the_same(api: str, fault: str) -> None:
    answers = []
    for stream in (False, True):
        app = APIS[api][0](
            {"What": [fault]}, thoughts="Two → three", cached=1, text="fünf 🎉 is it"
        )
        answers.append(ask(api, app, stream=stream))
    whole, streamed = answers
    assert streamed.usage.first_token_s is not None
    assert 0.0 < streamed.usage.first_token_s <= streamed.usage.latency_s
    for answer in answers:
        told = answer.usage.to_dict()
        assert ("first_token_s" in told) == (answer is streamed)
        answer.usage = type(answer.usage)()
    assert streamed == whole
    assert whole.text == "fünf 🎉 is it"


@each("api", STREAMING)
@each(
    ("fault", "kind", "words"),
    [
        ("stream-error", "server", "an error"),
        ("stream-cut", "garbled", "the stream stopped early"),
        ("stream-stall", "timeout", "streamed nothing for {patience:g} s"),
        ("stream-stall-pings", "timeout", "streamed nothing for {patience:g} s"),
    ],
)
def test_a_stream_that_breaks_is_a_failure(api: str, fault: str, kind: str, words: str) -> None:
    for patience in (0.3, 3.0, 30.0):  # on a busy machine a stream may take longer to begin
        error = failure(api, fault, stream=True, timeout_s=patience)
        if words.format(patience=patience) in str(error):
            break
    assert (error.kind, error.retryable) == (kind, True), str(error)
    assert words.format(patience=patience) in str(error)


@each("api", ["gemini", "azure"])
@each("stream", [False, True])
def test_log_probabilities_of_generated_tokens(api: str, stream: bool) -> None:
    answer = ask(api, APIS[api][0](text="It is five"), stream=stream, top_logprobs=2)
    assert answer.top_logprobs == tuple(
        (token, -0.25, ((token, -0.25), (" other", -1.75))) for token in ("It", " is", " five")
    )
    assert RawCompletion.from_dict(answer.to_dict()) == answer


@each("stream", [False, True])
def test_log_probabilities_of_an_openai_compatible_server(stream: bool) -> None:
    request = GenerateRequest((Message("user", SUM),))
    with Emulated(OpenAIApp(text="It is five")) as server:
        url = f"{server.url}/v1"
        model = OpenAICompatible("gpt-test", base_url=url, stream=stream, top_logprobs=2)
        answer = asyncio.run(model.generate(request))
        plain = OpenAICompatible("gpt-test", base_url=url, stream=stream)
        assert asyncio.run(plain.generate(request)).top_logprobs is None
        text = asyncio.run(plain.generate(GenerateRequest(SUM)))
    assert [token for token, *_ in answer.top_logprobs or ()] == ["It", " is", " five"]
    assert (answer.usage.first_token_s is not None) == stream
    assert (answer.text, text.text) == ("It is five", "It is five")


def test_the_timeout_is_between_tokens() -> None:
    """Seven events 0.15 s apart take longer than the timeout of one."""
    for tries_left in reversed(range(5)):  # a busy machine is late once, not every time
        app = AnthropicApp({"What": ["slow"]}, text="fünf")
        try:
            answer = ask("anthropic", app, stream=True, timeout_s=0.6, max_tries=1)
            break
        except ModelError:
            if not tries_left:
                raise
    assert answer.text == "fünf"
    assert answer.usage.latency_s > 0.9


@each("api", STREAMING)
def test_a_refusal_is_streamed_too(api: str) -> None:
    assert failure(api, "refusal", stream=True).kind == "refused"


# --- where prompts go, and with which key ----------------------------------------------------------


@each(
    ("spec", "env", "base", "key"),
    [
        ("anthropic:m", {}, "https://api.anthropic.com/v1", "without a key"),
        ("anthropic:m", {"ANTHROPIC_API_KEY": "x"}, "https://api.anthropic.com/v1", "with the key in ANTHROPIC_API_KEY"),
        ("anthropic:m{base_url='http://h:1'}", {"ANTHROPIC_API_KEY": "x"}, "http://h:1/v1", "without a key"),
        ("anthropic:m", {"ANTHROPIC_BASE_URL": "http://h:1/x", "ANTHROPIC_API_KEY": "x"}, "http://h:1/x", "without a key"),
        ("anthropic:m{base_url='http://api.anthropic.com'}", {"ANTHROPIC_API_KEY": "x"}, "http://api.anthropic.com/v1", "without a key"),
        ("gemini:m", {"GOOGLE_API_KEY": "x"}, "https://generativelanguage.googleapis.com/v1beta", "with the key in GOOGLE_API_KEY"),
        ("gemini:m", {"GOOGLE_API_KEY": "x", "GEMINI_API_KEY": "y"}, "https://generativelanguage.googleapis.com/v1beta", "with the key in GEMINI_API_KEY"),
        ("azure:m{base_url='https://n.openai.azure.com'}", {"AZURE_OPENAI_API_KEY": "x"}, "https://n.openai.azure.com/openai/v1", "with the key in AZURE_OPENAI_API_KEY"),
        ("azure:m{api_version='2024-10-21'}", {"AZURE_OPENAI_ENDPOINT": "https://n.openai.azure.com/"}, "https://n.openai.azure.com/openai/deployments/m", "without a key"),
        ("azure:m{base_url='https://openai.azure.com.evil.example'}", {"AZURE_OPENAI_API_KEY": "x"}, "https://openai.azure.com.evil.example/openai/v1", "without a key"),
        ("bedrock:m", {}, "https://bedrock-runtime.eu-central-1.amazonaws.com", "signed with credentials from botocore"),
        ("bedrock:m{region='us-gov-west-1', profile=p}", {}, "https://bedrock-runtime.us-gov-west-1.amazonaws.com", "signed with credentials from profile p"),
        ("bedrock:m", {"AWS_BEARER_TOKEN_BEDROCK": "x"}, "https://bedrock-runtime.eu-central-1.amazonaws.com", "with the key in AWS_BEARER_TOKEN_BEDROCK"),
    ],
)  # fmt: skip
def test_where_prompts_go_is_said_first(
    monkeypatch: pytest.MonkeyPatch, spec: str, env: dict[str, str], base: str, key: str
) -> None:
    said: list[str] = []
    # A server for OpenAI-compatible models is no place for these, whose names say where they are.
    with (
        monkeypatch.context() as there,
        user_server({"base_url": "http://localhost:8000/v1"}, tell=said.append),
    ):
        for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
            there.delenv(name, raising=False)
        for name, value in env.items():
            there.setenv(name, value)
        load_model(spec)
    assert said == [f"{spec.partition('{')[0]}: prompts go to {base}, {key}"]


@each(
    ("spec", "words"),
    [
        ("anthropic:m{prefill=no}", "`prefill` is 'no'"),
        ("anthropic:m{default_max_tokens=0}", "`default_max_tokens` is 0"),
        ("anthropic:m{base_url='ftp://h'}", "`base_url` is 'ftp://h'"),
        ("anthropic:m{api_key_env=NOT_SET_HERE}", "NOT_SET_HERE is not set"),
        ("anthropic:m{top_logprobs=2}", "has no option 'top_logprobs'"),
        ("gemini:m{top_logprobs=0}", "`top_logprobs` is 0"),
        ("anthropic:m{region='us-east-1'}", "has no option 'region'"),
        ("bedrock:m{stream=true}", "has no option 'stream'"),
        ("bedrock:m{region='evil.example/'}", "the region for bedrock:m is 'evil.example/'"),
        ("azure:m", r"no endpoint set for azure:m; use azure:m{base_url="),
        ("azure:m{base_url='https://n.openai.azure.com', api_version='latest'}", "`api_version` is 'latest'"),
        ("gemini:", "lacks a name after the colon"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_used(spec: str, words: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        load_model(spec)
    assert words in str(caught.value)


@each(
    "spec",
    ["anthropic:m", "gemini:m", "bedrock:m", "azure:m{base_url='https://n.openai.azure.com'}"],
)
def test_a_file_sends_nothing_to_hosts_that_the_user_did_not_name(spec: str) -> None:
    with (
        making(read_from("task.toml")),
        pytest.raises(InvalidInputError, match="would send prompts to"),
    ):
        load_model(spec)
    with (
        making(read_from("task.toml")),
        pytest.raises(InvalidInputError, match="would send a variable of your environment"),
    ):
        load_model(spec.partition("{")[0] + "{base_url='https://h.example', api_key_env=THE_KEY}")


def test_a_key_for_bedrock_is_sent_instead_of_a_signature() -> None:
    app = BedrockApp()
    ask("bedrock", app, api_key_env="THE_KEY")
    assert app.requests[0].headers["Authorization"] == f"Bearer {KEY}"


def test_names_with_slashes_and_colons_are_signed_as_they_are_sent() -> None:
    app = BedrockApp()
    with Emulated(app) as server:
        model = Bedrock("arn:aws:bedrock:x:1:y/test", base_url=server.url)
        assert asyncio.run(model.generate(GenerateRequest(SUM))).text == "5"
    assert app.requests[0].raw_path == "/model/arn%3Aaws%3Abedrock%3Ax%3A1%3Ay%2Ftest/converse"


def test_without_credentials_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    app = BedrockApp()
    with pytest.raises(ModelError, match="botocore found no AWS credentials") as caught:
        ask("bedrock", app)
    assert (caught.value.kind, app.bodies) == ("auth", [])
    with pytest.raises(ModelError, match=r"cannot read the AWS credentials: .*nobody"):
        ask("bedrock", app, profile="nobody")


def test_an_earlier_version_of_azure_names_the_deployment_in_the_path() -> None:
    app = OpenAIApp()
    assert ask("azure", app, api_version="2024-10-21", max_tokens_field="max_tokens").text == "5"
    assert app.requests[0].path_qs == (
        "/openai/deployments/gpt-test/chat/completions?api-version=2024-10-21"
    )


def test_a_cue_may_be_sent_as_a_part_of_the_question() -> None:
    app = AnthropicApp()
    ask("anthropic", app, (Message("user", SUM), Message("assistant", "Answer:")), prefill="user")
    (turn,) = app.bodies[0]["messages"]
    assert turn["content"] == [{"type": "text", "text": f"{SUM}\nAnswer:"}]


def test_fields_inside_of_objects_can_be_added_and_removed() -> None:
    app = GeminiApp()
    extra = {"generationConfig": {"temperature": None, "topK": 3}}
    ask("gemini", app, extra_body=extra, told={"max_tokens": 5})
    assert app.bodies[0]["generationConfig"] == {"maxOutputTokens": 5, "topK": 3}
