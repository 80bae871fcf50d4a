"""An issuer of access tokens on loopback: metadata, keys, authorization code with PKCE, and faults a test asks for."""

import base64
import hashlib
import json
import time
from collections import Counter
from typing import Any
from urllib.parse import parse_qsl, urlencode
from uuid import uuid4

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from thread_server import ThreadServer

RESOURCE = "https://memory.example/mcp"
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def public_jwk(key: PrivateKey, kid: str, **more: Any) -> dict[str, Any]:
    """The public half of a key, as an issuer publishes it."""
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig", **more}  # pyright: ignore[reportArgumentType]


def signed(key: Any, kid: str, claims: dict[str, Any], algorithm: str = "ES256", **headers: Any) -> str:
    """A token; without a `kid` where that is empty."""
    named = {"kid": kid} if kid else {}
    return jwt.encode(claims, key, algorithm, headers={"typ": "at+jwt", **named, **headers})


class Issuer(ThreadServer):
    """Runs as a context manager; its attributes may be set at any time.

    `down`: everything is answered with 500. `resource`: whom tokens are for, unless a client says it. `granted`: the
    scopes that its user agrees to, None: all that are asked for. `requests` counts paths.
    """

    def __init__(self) -> None:
        self.down = False
        self.resource = RESOURCE
        self.granted: set[str] | None = None
        self.claims: dict[str, Any] = {}
        self.requests = Counter[str]()
        self._codes: dict[str, dict[str, str]] = {}
        self.rotate()
        routes = [
            Route("/.well-known/oauth-authorization-server", self._metadata),
            Route("/jwks", self._jwks),
            Route("/register", self._register, methods=["POST"]),
            Route("/authorize", self._authorize),
            Route("/token", self._token, methods=["POST"]),
        ]
        super().__init__(routes)

    def rotate(self) -> None:
        """From now on another key signs, and nobody is told of the one before."""
        self.key, self.kid = ec.generate_private_key(ec.SECP256R1()), f"key-{uuid4().hex[:8]}"

    def token(self, scope: str = "mnemolog:read mnemolog:write", **claims: Any) -> str:
        """A token that holds for an hour, unless its claims say something else."""
        return signed(self.key, self.kid, self.stated(scope, **claims))

    def stated(self, scope: str, **claims: Any) -> dict[str, Any]:
        """The claims of a token; None leaves one out."""
        now = int(time.time())
        every = {
            "iss": self.url, "aud": self.resource, "sub": "ada", "iat": now, "exp": now + 3600, "scope": scope,
            **self.claims, **claims,
        }  # fmt: skip
        return {name: value for name, value in every.items() if value is not None}

    async def _metadata(self, request: Request) -> Response:
        return self._answer(
            request,
            {
                "issuer": self.url, "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token", "registration_endpoint": f"{self.url}/register",
                "jwks_uri": f"{self.url}/jwks", "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"], "authorization_response_iss_parameter_supported": True,
            },
        )  # fmt: skip

    async def _jwks(self, request: Request) -> Response:
        return self._answer(request, {"keys": [public_jwk(self.key, self.kid)]})

    async def _register(self, request: Request) -> Response:
        return self._answer(request, {**await request.json(), "client_id": uuid4().hex}, 201)

    async def _authorize(self, request: Request) -> Response:
        query = dict(request.query_params)
        code = uuid4().hex
        self._codes[code] = query
        back = {"code": code, "state": query["state"], "iss": self.url}
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(back)}")

    async def _token(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        query = self._codes.pop(form["code"])
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != query["code_challenge"]:
            return self._answer(request, {"error": "invalid_grant"}, 400)
        expected = query.get("scope", "").split()
        scope = " ".join(item for item in expected if self.granted is None or item in self.granted)
        token = self.token(scope, aud=form["resource"])
        return self._answer(
            request, {"access_token": token, "token_type": "Bearer", "expires_in": 3600, "scope": scope}
        )

    def _answer(self, request: Request, content: Any, status: int = 200) -> Response:
        self.requests[request.url.path] += 1
        return JSONResponse({"error": "down"}, 500) if self.down else JSONResponse(content, status)
