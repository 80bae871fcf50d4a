"""Texts of the kinds that agents store, to compare an exported model with its original on."""

SHORT = """\
ok
Done.
no tests ran
What broke the build?
the user prefers tabs over spaces
Deploys happen on Tuesday mornings.
Who owns the billing service?
Yes, merge it, but squash the commits first.
Grandmother's birthday is on the ninth of March.
He moved from Lisbon to Oslo last autumn.
The tea shop on the corner closed for good.
Remind me to water the plants.
I never want to see a modal dialog again!
permission denied
42
TODO: remove this once the migration is over"""

PROSE = """\
The connection pool was exhausted because a transaction stayed open while the worker waited for a remote call.
We agreed that every public function gets a one-line docstring, and that private ones only get one when it helps.
Customers in Brazil saw prices in euros for two hours after the release, until the currency cache was flushed.
She asked for the quarterly report as a spreadsheet, not as a slide deck, and wants the raw numbers on the second sheet.
When the disk is nearly full the database refuses writes but keeps answering reads, so the health check stays green.
My daughter started playing the cello, and we are looking for a used instrument in a three-quarter size.
Integration tests need a running Redis; start one with the compose file in the deploy folder before you run them.
The retry loop doubled every message, since the server had stored the first attempt and only the answer was lost.
After the hike we stopped at a small lake, swam for an hour and ate the last of the bread and cheese.
Please keep answers short: a sentence or two, then the command, without an introduction or a summary.
The flaky test depends on the order of dictionary keys that come back from the old client library.
Our landlord promised to repair the heating before November, but nobody has come to look at it yet.
Lesson learned: pin the base image by digest, because the tag was moved and the next build failed in production.
The patient reported mild headaches in the morning which went away after reducing the dose.
Interest rates rose by a quarter of a percentage point, less than most economists had expected.
Bees visit the lavender first thing in the morning and the tomatoes only when it is warm.
The agent read the file twice, edited the wrong function, ran the tests, noticed, and reverted its change.
An index replica that fell behind loads the newest snapshot and then follows the feed from the position in it.
Nobody could explain why the cron job ran twice, until somebody found a second copy on the old machine.
He apologised for missing the call; his train had stopped for an hour in a tunnel without any reception.
The museum opens at ten, is closed on Mondays, and lets children under twelve in for free.
Prefer composition to inheritance here: the three exporters share two helpers and nothing else.
The token had expired, the refresh failed with a 401, and the client then hammered the login page.
Marta will present the roadmap, Yusuf answers technical questions, and I take the notes."""

TECHNICAL = """\
def retention(age: timedelta, half_life: timedelta) -> float: return 0.5 ** (age / half_life)
SELECT session_id, count(*) FROM observations WHERE kind = 'error' GROUP BY 1 ORDER BY 2 DESC LIMIT 20;
git rebase --onto main feature~3 feature && git push --force-with-lease origin feature
/usr/local/lib/python3.11/site-packages/httpx/_transports/default.py:118: ConnectTimeout
src/components/checkout/PaymentForm.tsx(88,14): error TS2345: Argument of type 'string' is not assignable
{"tool": "Edit", "file": "api/native/memories.py", "ok": true, "ms": 182, "lines": [14, 15, 22]}
kubectl -n payments rollout undo deployment/ledger --to-revision=17
Traceback (most recent call last): File "app.py", line 7, in <module>: KeyError: 'REDIS_URL'
for (let i = 0; i < rows.length; i++) { if (rows[i].id === wanted) return rows[i]; } return null;
https://example.org/docs/v2/search?query=vector%20index&limit=10#filters
impl Iterator for Positions { type Item = u64; fn next(&mut self) -> Option<u64> { self.inner.pop() } }
ERROR 2026-03-14T09:26:53Z worker-3 lease lost partition=p07 token=41 owner=worker-5
3f786850e387550fdab836ed7e6dc881de23001b is the commit that introduced the regression
pip install "redis>=5.3,<6" failed: no matching distribution found for hiredis==3.4.0
export PATH="$HOME/.local/bin:$PATH"; exec "$SHELL" -l
<div class="card"><h2>{{ title }}</h2><p>{{ body | truncate(80) }}</p></div>
E = mc^2, and the integral of x^2 from 0 to 1 is 1/3
C:\\Users\\dev\\AppData\\Local\\Temp\\build-7731\\output.log"""

UNICODE = """\
Der Käufer möchte die Rechnung als PDF, nicht per Post.
La réunion a été déplacée à jeudi, à cause de la grève des trains.
Пользователь предпочитает тёмную тему и короткие ответы.
用户喜欢在早上喝绿茶，不喜欢咖啡。
本番環境のデプロイは毎週火曜日です。
배포가 실패해서 이전 버전으로 되돌렸습니다.
ابدأ الخادم قبل تشغيل الاختبارات
El café está cerrado por vacaciones hasta el próximo año ☕
Deploy went fine 🚀🚀 but the cat 🐈 walked over the keyboard
naïve façade, coöperate, São Paulo, Zürich, Łódź, İstanbul
“Curly quotes” — em dashes – and an ellipsis…
∀x ∈ ℝ: x² ≥ 0 ∧ √2 ∉ ℚ"""


def sample_texts() -> list[str]:
    """At least 64 different texts: short, prose, code, logs, other scripts, beyond the model's window."""
    groups = [group.splitlines() for group in (SHORT, PROSE, TECHNICAL, UNICODE)]
    prose = groups[1]
    middling = [" ".join(prose[start : start + 4]) for start in range(0, len(prose), 6)]
    long = [" ".join(prose), "\n".join(groups[2]), " ".join(prose[::-1] + groups[0])]
    return [text for group in groups for text in group] + middling + long
