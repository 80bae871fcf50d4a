# ruff: noqa: E501
"""Texts with secrets, made from a seed: no text of the repository looks like anybody's key.

A shape is a text with `{...}` for what a generator makes, and the secret between « and ». Generators: `an36` letters and
digits, `h40` hex, `A16` capitals and digits, `l32` small letters and digits, `d10` digits, `u43` also - and _, `b64`
base64 without padding, `B32` the alphabet of base32, `pw` what a person chooses, `uuid`. `env64`, `json64` and `pem64`
are the base64 of such a file, `seed12` and `seed24` phrases of BIP-39, `wif` a private key as wallets export it.
"""

import base64
import hashlib
import random
import re
import string
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from typing import NamedTuple

_ALPHABETS = {
    "an": string.ascii_letters + string.digits, "h": "0123456789abcdef", "A": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits, "d": string.digits, "u": string.ascii_letters + string.digits + "-_",
    "b": string.ascii_letters + string.digits + "+/",
}  # fmt: skip
_WORDS = ("falcon", "Winter", "shop", "Kestrel", "orange", "Tr0ub4dor", "hunter", "Sommer", "gr33n", "paper")
_SIGNS = "!#%*+.-_"
_PART = re.compile(r"\{(an|h|A|l|d|u|b|B|pw|uuid|basic|env|json|pem|seed|wif)(\d*)\}|\{\{|\}\}")
WINDOW = 10
"""Characters of a secret in a row that must not be left over."""


class Sample(NamedTuple):
    """A text and the secret in it."""

    name: str
    text: str
    secret: str

    def leaks(self, stored: str) -> bool:
        """Whether a part of the secret that is worth something is in what was stored."""
        for line in re.split(r"\s+|\\+n", self.secret):
            width = min(len(line), WINDOW)
            if width >= 4 and any(line[at : at + width] in stored for at in range(len(line) - width + 1)):
                return True
        return False


def samples(shapes: Mapping[str, str], seed: int = 1) -> Iterator[Sample]:
    """One sample of every shape."""
    for name, shape in shapes.items():
        chance = random.Random(f"{seed} {name}")
        filled = _PART.sub(lambda part, chance=chance: _made(part, chance), shape)
        before, secret, after = re.split("[«»]", filled)
        yield Sample(name, before + secret + after, secret)


def _made(part: re.Match[str], chance: random.Random) -> str:
    if part[0] in ("{{", "}}"):
        return part[0][0]
    kind, count = part[1], int(part[2] or 0)
    if kind == "pw":
        return _password(chance)
    if kind == "uuid":
        return "-".join("".join(chance.choices(_ALPHABETS["h"], k=size)) for size in (8, 4, 4, 4, 12))
    if made := _ENCODED.get(kind):
        return base64.b64encode(made(chance).encode()).decode()
    if kind == "seed":
        return _phrase(chance.randbytes(count // 3 * 4))
    if kind == "wif":
        return _base58(b"\x80" + chance.randbytes(32) + b"\x01")
    if kind == "B":
        return "".join(chance.choices(string.ascii_uppercase + "234567", k=count))
    while True:
        made = "".join(chance.choices(_ALPHABETS[kind], k=count))
        if count < 12 or (any(map(str.isdigit, made)) and any(map(str.isalpha, made))) or kind == "d":
            return made


def _password(chance: random.Random) -> str:
    return (
        chance.choice(_WORDS) + chance.choice(("", *_SIGNS)) + str(chance.randrange(2, 9999)) + chance.choice(("", "!"))
    )


_ENCODED: dict[str, Callable[[random.Random], str]] = {
    "env": lambda chance: f"DB_HOST=db.internal\nDB_USER=shop\nDB_PASSWORD={_password(chance)}\n",
    "json": lambda chance: f'{{"user": "shop", "password": "{_password(chance)}", "port": 5432}}',
    "pem": lambda chance: (
        "-----BEGIN RSA PRIVATE KEY-----\n"
        + base64.encodebytes(chance.randbytes(600)).decode()
        + "-----END RSA PRIVATE KEY-----\n"
    ),
}


def _phrase(entropy: bytes) -> str:
    words = files("ingest.secrets").joinpath("bip39.txt").read_text().split()
    sum_bits = len(entropy) // 4
    number = int.from_bytes(entropy) << sum_bits | hashlib.sha256(entropy).digest()[0] >> 8 - sum_bits
    length = (len(entropy) * 8 + sum_bits) // 11
    return " ".join(words[number >> 11 * at & 2047] for at in reversed(range(length)))


def _base58(payload: bytes) -> str:
    signs = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    number = int.from_bytes(payload + hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:4])
    made = ""
    while number:
        number, rest = divmod(number, 58)
        made = signs[rest] + made
    return made


SHAPES = {
    # assignments
    "env password": "DB_PASSWORD=«{pw}»",
    "env password, quoted": 'export PGPASSWORD="«{pw}»"',
    "env secret": "APP_SECRET=«{an32}»",
    "env short secret": "SECRET=«{an10}»",
    "env token": "DEPLOY_TOKEN=«{an24}»",
    "env key": "STRIPE_KEY=«{an24}»",
    "env word": "POSTGRES_PASSWORD=«swordfish»",
    "ini password": "[db]\nuser = bob\npassword = «{pw}»\n",
    "ini api key": "api_key = «{an16}»",
    "yaml password": "db:\n  user: bob\n  password: «{pw}»\n",
    "yaml quoted": "  password: '«{pw}»'",
    "yaml block": "password: |\n  «{pw}»\n",
    "yaml secret key": "secretKey: «{an20}»",
    "toml password": 'password = "«{pw}»"',
    "toml token": 'token = "«{l20}»"',
    "json password": '{{"user": "bob", "password": "«{pw}»"}}',
    "json camel": '{{"accessToken":"«{an18}»"}}',
    "json api key": '{{"apiKey": "«{h32}»"}}',
    "json in json": '"{{\\"db_password\\": \\"«{pw}»\\"}}"',
    "json refresh token": '{{"refresh_token": "«{u43}»", "expires_in": 3600}}',
    "json client secret": '"client_secret": "«{an16}»"',
    "python keyword": 'connect(host="db", password="«{pw}»")',
    "python constant": "API_TOKEN = '«{an30}»'",
    "python annotated": 'password: str = "«{pw}»"',
    "python environ": 'os.environ["DB_PASSWORD"] = "«{pw}»"',
    "javascript object": "const c = {{ secret: '«{an18}»' }}",
    "javascript backtick": "const token = `«{an24}»`",
    "java property": "jdbc.password=«{pw}»",
    "c sharp": 'var apiKey = "«{an32}»";',
    "comparison": 'if password == "«{pw}»":',
    "passphrase of words": 'passphrase = "«correct horse battery staple»"',
    "pass in yaml": "smtp_pass: «{pw}»",
    "pwd": "pwd=«{pw}»",
    "passwd colon": "passwd: «{pw}»",
    "encryption key": "ENCRYPTION_KEY=«{b43}=»",
    "signing key": 'signing_key: "«{h64}»"',
    "powershell env": '$env:DB_PASSWORD = "«{pw}»"',
    "cmd set": "set DB_PASSWORD=«{pw}»",
    "k8s env": '- name: DB_PASSWORD\n  value: "«{pw}»"',
    "ecs env": '{{"name":"API_TOKEN","value":"«{an24}»"}}',
    "k8s secret data": "kind: Secret\ndata:\n  password: «{b24}»\n",
    "line continuation": "DEPLOY_TOKEN=«{an20}\\\n{an20}»",
    "wrapped base64": "secret_key: «{b64}\n  {b64}\n  {b30}»",
    "ci variable": "CI_DEPLOY_PASSWORD: «{an20}»",
    # prefixes
    "github classic": "use «ghp_{an36}» for it",
    "github oauth": "«gho_{an36}»",
    "github app user": "«ghu_{an36}»",
    "github app server": "«ghs_{an36}»",
    "github refresh": "«ghr_{an76}»",
    "github fine-grained": "the pat «github_pat_{an22}_{an59}» works",
    "gitlab pat": "«glpat-{an20}»",
    "gitlab deploy": "«gldt-{an20}»",
    "gitlab runner": "«glrt-{u20}»",
    "slack bot": "«xoxb-{d12}-{d12}-{an24}»",
    "slack user": "«xoxp-{d12}-{d12}-{d12}-{h32}»",
    "slack app": "«xapp-1-A{A10}-{d13}-{h64}»",
    "slack refresh": "«xoxe-1-{A146}»",
    "slack webhook": "https://hooks.slack.com/services/T{A8}/B{A10}/«{an24}»",
    "stripe live": "«sk_live_{an24}»",
    "stripe test": "«sk_test_{an99}»",
    "stripe restricted": "«rk_live_{an24}»",
    "stripe webhook": "«whsec_{an32}»",
    "google api": "«AIza{u35}»",
    "google oauth": "«ya29.a0{u120}»",
    "google client secret": "«GOCSPX-{u28}»",
    "google refresh": "«1//0{u60}»",
    "aws access": "the key «AKIA{B16}» of ops",
    "aws temporary": "«ASIA{B16}»",
    "aws secret env": "AWS_SECRET_ACCESS_KEY=«{b40}»",
    "aws secret ini": "aws_secret_access_key = «{b40}»",
    "aws session": "AWS_SESSION_TOKEN=«IQoJb3JpZ2luX2Vj{b300}==»",
    "azure client secret": "«{an3}8Q~{u34}»",
    "azure storage key": "AccountKey=«{b86}==»;EndpointSuffix=x",
    "azure sas": "?sv=2022-11-02&ss=bfqt&sig=«{b43}%3D»&se=2030",
    "azure devops pat": "AZURE_DEVOPS_EXT_PAT=«{l52}»",
    "huggingface": "«hf_{an34}»",
    "pypi": "«pypi-AgEIcHlwaS5vcmc{u100}»",
    "npm": "«npm_{an36}»",
    "vault service": "«hvs.{u90}»",
    "vault batch": "«hvb.{u138}»",
    "openai old": "«sk-{an48}»",
    "openai project": "«sk-proj-{u120}»",
    "anthropic": "«sk-ant-api03-{u93}AA»",
    "cohere env": "COHERE_API_KEY=«{an40}»",
    "mistral env": "MISTRAL_API_KEY=«{an32}»",
    "nvidia": "«nvapi-{u64}»",
    "langsmith": "«lsv2_pt_{h32}_{h10}»",
    "pinecone": "«pcsk_{an6}_{an60}»",
    "tavily": "«tvly-{an32}»",
    "telegram": "TELEGRAM=«{d10}:AA{u33}»",
    "discord": "«N{an23}.{an6}.{u38}»",
    "twilio key": "«SK{h32}»",
    "sendgrid": "«SG.{u22}.{u43}»",
    "mailgun key": "«key-{h32}»",
    "mailchimp": "«{h32}-us12»",
    "digitalocean": "«dop_v1_{h64}»",
    "digitalocean oauth": "«doo_v1_{h64}»",
    "heroku env": "HEROKU_API_KEY=«{uuid}»",
    "heroku new": "«HRKU-AA{u58}»",
    "shopify": "«shpat_{h32}»",
    "shopify secret": "«shpss_{h32}»",
    "databricks": "«dapi{h32}»",
    "datadog env": "DD_API_KEY=«{h32}»",
    "datadog app": "datadog_app_key: «{h40}»",
    "new relic": "«NRAK-{A27}»",
    "sentry dsn": "https://«{h32}»@o1234.ingest.example.io/42",
    "sentry dsn with secret": "https://{h32}:«{h32}»@sentry.example.io/42",
    "sentry user": "«sntryu_{h64}»",
    "postman": "«PMAK-{h24}-{h34}»",
    "linear": "«lin_api_{an40}»",
    "notion": "«ntn_{an46}»",
    "notion old": "«secret_{an43}»",
    "airtable": "«pat{an14}.{h64}»",
    "atlassian": "«ATATT3xFfGF0{u180}»",
    "bitbucket": "«ATBB{an32}»",
    "cloudflare env": "CLOUDFLARE_API_TOKEN=«{u40}»",
    "cloudflare key": "X-Auth-Key: «{h37}»",
    "fly": "«fm2_{b200}»",
    "vercel env": "VERCEL_TOKEN=«{an24}»",
    "supabase": "«sbp_{h40}»",
    "supabase secret": "«sb_secret_{u31}»",
    "doppler": "«dp.pt.{an43}»",
    "age": "«AGE-SECRET-KEY-1{A58}»",
    "grafana cloud": "«glc_{b60}»",
    "netlify": "«nfp_{an36}»",
    "tailscale": "«tskey-auth-{an12}-{an32}»",
    "docker hub": "«dckr_pat_{u27}»",
    "1password": "«ops_eyJ{b260}»",
    "mnemolog": "«mnk_{an12}_{an43}»",
    "mnemolog secret": "MNEMOLOG_SECRET=«{an20}»",
    "jwt": "«eyJ{u30}.eyJ{u60}.{u43}»",
    "jwt without signature": "«eyJ{u30}.eyJ{u60}.»",
    # blocks
    "pem": "-----BEGIN RSA PRIVATE KEY-----\n«{b64}\n{b64}\n{b40}»\n-----END RSA PRIVATE KEY-----",
    "pem openssh": "-----BEGIN OPENSSH PRIVATE KEY-----\n«{b70}\n{b70}»\n-----END OPENSSH PRIVATE KEY-----\n",
    "pem one line": "-----BEGIN PRIVATE KEY-----«{b300}»-----END PRIVATE KEY-----",
    "pem spaces": "-----BEGIN PRIVATE KEY----- «{b64} {b64} {b20}» -----END PRIVATE KEY-----",
    "pem escaped": 'key = "-----BEGIN EC PRIVATE KEY-----\\n«{b64}\\n{b40}»\\n-----END EC PRIVATE KEY-----\\n"',
    "pem truncated": "-----BEGIN RSA PRIVATE KEY-----\n«{b64}\n{b64}\n{b31}»",
    "pem truncated escaped": "-----BEGIN PRIVATE KEY-----\\n«{b64}\\n{b64}»",
    "pem encrypted": "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{h32}\n\n«{b64}\n{b64}»\n-----END RSA PRIVATE KEY-----",
    "pgp": "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n«{b64}\n{b64}\n=abcd»\n-----END PGP PRIVATE KEY BLOCK-----",
    "pem base64": "«LS0tLS1CRUdJTiBSU0Eg{b200}»",
    "service account": '{{"type": "service_account", "private_key_id": "x", "private_key": "-----BEGIN PRIVATE KEY-----\\n«{b64}\\n{b64}»\\n-----END PRIVATE KEY-----\\n"}}',
    "service account in a string": '"{{\\"private_key\\": \\"-----BEGIN PRIVATE KEY-----\\\\n«{b64}\\\\n{b64}»\\\\n-----END PRIVATE KEY-----\\\\n\\"}}"',
    # addresses
    "url https": "https://bob:«{pw}»@git.example.com/a.git",
    "url redis": "redis://:«{pw}»@cache:6379/0",
    "url postgres": "postgres://bob:«{pw}»@db/shop",
    "url postgresql driver": "postgresql+asyncpg://bob:«{pw}»@db:5432/shop",
    "url mongo": "mongodb+srv://bob:«{pw}»@c0.example.net",
    "url mysql": "mysql://root:«{pw}»@localhost:3306/x",
    "url amqp": "amqp://guest:«{pw}»@mq:5672/%2f",
    "url smtp": "smtps://mail%40example.com:«{pw}»@smtp.example.com:465",
    "url ftp": "ftp://bob:«{pw}»@files.example.com/x",
    "url token": "https://«{an24}»@git.example.com/a.git",
    "url query token": "https://api.example.com/x?access_token=«{an32}»&y=1",
    "url signature": "https://s3.example.com/b?X-Amz-Signature=«{h64}»",
    # headers
    "authorization basic": "Authorization: Basic «Ym9iOmh1bnRlcjI=»",
    "authorization bearer": "Authorization: Bearer «{an40}»",
    "authorization short": "Authorization: Bearer «{an9}»",
    "authorization token": "Authorization: Token «{h40}»",
    "authorization json": '"Authorization": "Bearer «{an20}»"',
    "authorization curl": "curl -H 'Authorization: Bearer «{an16}»' https://x.example",
    "authorization alone": "Authorization: «{an32}»",
    "proxy authorization": "Proxy-Authorization: Basic «Ym9iOnNlY3JldDEyMw==»",
    "bearer in prose": "I sent Bearer «{an14}» and got 200",
    "api key header": "x-api-key: «{an20}»",
    "private token header": "PRIVATE-TOKEN: «{an20}»",
    "cookie": "Cookie: session=«{an32}»; theme=dark",
    "set cookie": "Set-Cookie: sid=«{an24}»; HttpOnly",
    "curl cookie": "curl -b 'session=«{an24}»' https://x.example",
    # commands
    "curl -u": "curl -u bob:«{pw}» https://x.example",
    "curl --user": 'curl --user "bob:«{pw}»" https://x.example',
    "sshpass": "sshpass -p «{pw}» ssh bob@host",
    "sshpass quoted": "sshpass -p '«{pw}»' ssh bob@host",
    "mysql -p": "mysql -u root -p«{pw}» -e 'select 1'",
    "docker login": "docker login -u bob -p «{pw}» registry.example.com",
    "flag password": "tool --password «{pw}» run",
    "flag password=": "tool --password=«{pw}» run",
    "flag api key": "tool --api-key «{an20}»",
    "argv": '["tool", "--password", "«{pw}»"]',
    "pgpassword command": "PGPASSWORD=«{pw}» psql -h db",
    "redis requirepass": "requirepass «{pw}»",
    "htpasswd": "htpasswd -bc .htpasswd bob «{pw}»",
    "passin": "openssl rsa -in k.pem -passin pass:«{pw}»",
    "gh login": "echo «{an30}» | gh auth login --with-token",
    # files
    "netrc one line": "machine x.example login bob password «{pw}»",
    "pgpass line": "*:*:*:bob:«{pw}»",
    "connection string": "Server=db;Database=x;User Id=sa;Password=«{pw}»;",
    "connection string pwd": "Driver={{ODBC}};Server=db;Uid=bob;Pwd=«{pw}»;",
    "service bus": "SharedAccessKeyName=Root;SharedAccessKey=«{b43}=»",
    "htpasswd hash": "bob:$apr1$«{an8}$./{an20}»",
    "bcrypt": "$2b$12$«{an53}»",
    "npmrc": "//npm.corp.example/:_authToken=«{an36}»",
    "pip index": "index-url = https://bob:«{pw}»@pypi.corp.example/simple",
    "otpauth": "otpauth://totp/a?secret=«{B32}»",
    "xml": "<apiKey>«{an24}»</apiKey>",
    "xml password": "<password>«{pw}»</password>",
    "appsettings": '<add key="ApiToken" value="«{an24}»" />',
    "sql": "CREATE ROLE bob LOGIN PASSWORD '«{pw}»';",
    # prose
    "prose password is": "the password is «{pw}»",
    "prose password for": "The password for the staging database is «{pw}».",
    "prose the password:": "the password: «{pw}»",
    "prose quoted": 'the admin password is "«swordfish»"',
    "prose changed": "I changed the root password to «{pw}», please keep it.",
    "prose login": "log in as bob with password «{pw}»",
    "prose token": "our API key is «{an24}»",
    "prose slash": "credentials: bob / «{pw}»",
    # private
    "private": "a <private>«it is {an8}»</private> b",
    "private case": "a <PRIVATE>«it is {an8}»</Private> b",
    "private space": "a < private >«it is {an8}»< / private > b",
    "private attribute": 'a <private level="2">«it is {an8}»</private> b',
    "private nested": "a <private>x <private>y</private> «it is {an8}»</private> b",
    "private unclosed": "a <private>«it is {an8}»",
    "private escaped": "a &lt;private&gt;«it is {an8}»&lt;/private&gt; b",
    "private json escaped": "a \\u003cprivate\\u003e«it is {an8}»\\u003c/private\\u003e b",
    "private lines": "a <private>\n«it is {an8}»\n</private> b",
    "zero width around": "key \u200b«ghp_{an36}»\u200b end",
    "full stop after": "It is «glpat-{an20}».",
}
