"""What the four agents of a web shop's checkout service saw and did in nine days (notation: api/cli/fleet.py)."""

SCRIPT = """
## cart-rounding | ada | 9 09:10 | Totals differ from the invoice by a cent
> Customers in Switzerland report that the cart total and the invoice differ by one centime. Please find out why.
$ Grep | round\\( | 14 matches in services/pricing, 3 of them in tax.py
$ Read | services/pricing/tax.py | def tax_for(line): return round(line.net * rate, 2)
- @rounding-cause Tax is rounded once per line in the cart but once per order in the invoice service; with seven
  lines the two drift apart by up to three cents.
$ Bash | pytest tests/pricing -q | 41 passed in 3.2s
- No existing test has more than two lines in the cart, which is why nobody noticed.
= We round tax per order, half to even, and spread the remainder over the lines with the largest net amount.
$ Edit | services/pricing/tax.py | replaced per-line rounding with allocate(total_tax, weights)
$ Write | tests/pricing/test_allocation.py | 6 tests, one with 40 lines of 0.05 each
$ Bash | pytest tests/pricing -q | 47 passed in 3.5s
- Sent the branch to brook for review and asked for a property test over random carts.
* @money money,pricing | Money is held as an integer number of minor units together with its ISO currency code;
  floats are refused at the boundary of the pricing package.
+ Sum first and round last; rounding every line makes two services disagree ~ found while chasing a one-cent
  difference

## payment-timeouts | cyrus | 9 14:30 | Card payments time out at noon
! Alert: payment authorisation p99 is 11.8 s, the threshold is 4 s, 212 orders are stuck in state PENDING.
$ Bash | kubectl top pods -n checkout | payments-6f9c 1980m CPU of 2000m, the other two pods idle at 40m
- One pod takes all the traffic: the gRPC channel keeps a single connection open and the load balancer works per
  connection, not per call.
$ Bash | kubectl rollout restart deploy/payments | deployment restarted, 3 of 3 ready
- Restarting spread the connections again and p99 fell to 900 ms, but this comes back whenever a pod is replaced.
= @grpc-fix Clients of the payments service switch to round-robin over the headless service, with a connection age
  of at most five minutes.
$ Edit | deploy/payments/service.yaml | clusterIP: None
$ Edit | services/checkout/payment_client.py | loadBalancingConfig round_robin, max_connection_age 300
- Reconciled the 212 stuck orders against the card processor: 198 were authorised, 14 were declined, none was
  charged twice.
* @timeout-v1 payments,timeouts | The payment client gives up after 8 seconds and tries at most 2 more times with
  the same idempotency key, then the order goes to the manual review queue of the finance team
+ A long-lived gRPC connection defeats a balancer that works per connection ~ noon outage of the payments pods

## flaky-suite | brook | 8 09:00 | The end-to-end suite fails one run in five
> The nightly checkout suite has been red four times this week. Make it trustworthy or tell me which tests to
  delete.
$ Bash | python tools/flaky.py --last 60 | 11 tests failed at least once, 3 of them cause 80 % of the failures
- test_guest_checkout waits two seconds for a confirmation mail that takes up to six on the shared mail stub.
- test_coupon_expiry depends on the wall clock: it fails when it runs across midnight UTC.
- test_parallel_carts shares the user `alice` with test_address_book, so their order matters.
$ Edit | e2e/conftest.py | a fresh user for every test, named after the test
$ Edit | e2e/mail.py | poll the stub until the mail is there, at most 15 s
$ Edit | e2e/test_coupons.py | freeze the clock at 2030-01-01T12:00Z
x Bash | pytest e2e -n 4 | 2 failed: the address form was submitted before the postcode lookup had returned
- The postcode lookup is debounced by 300 ms; the page object now waits for the spinner to disappear.
$ Bash | pytest e2e -n 4 --count 20 | 1340 passed, 0 failed
= Sleeping in an end-to-end test is not allowed any more; a lint rule looks for time.sleep in e2e/.
* testing | Every end-to-end test creates its own user and its own warehouse; nothing is shared, so the suite runs
  in any order.
+ Wait for a condition, never for a number of seconds ~ flaky checkout suite

## address-form | dara | 8 11:20 | Address form loses input on slow phones
> On low-end phones the address form jumps back and clears the street field. Reproduce it and fix it.
- Reproduced with a six-fold CPU throttle: the country select re-mounts the whole form when the list of regions
  arrives.
$ Read | web/src/checkout/AddressForm.tsx | key={regions.length} on the fieldset
- @address-cause The React key on the fieldset was the number of regions; it changed from 0 to 26 when they loaded,
  and React threw away everything the customer had typed.
$ Edit | web/src/checkout/AddressForm.tsx | key removed, regions kept in a ref until the select is opened
$ Bash | npm run test -- AddressForm | 18 passed
- Time to interactive on a Moto G4 went from 6.1 s to 3.4 s, because the region list is now loaded on demand.
= The form keeps its draft in sessionStorage and restores it after a reload; drafts are dropped once the order is
  placed.
- Screen reader check with NVDA: the error summary is announced, the focus goes to the first wrong field.
* frontend,accessibility | Form errors are announced through one live region and the focus moves to the first
  invalid field; colour alone never carries the message.

## inventory-race | ada | 7 10:05 | Two customers bought the last lamp
! Order 88213 and order 88214 both reserved the last unit of SKU LAMP-042; the warehouse had one.
$ Bash | psql -c "select * from reservations where sku='LAMP-042'" | two rows, 38 ms apart
- The reservation reads the stock and then writes it in a second statement; under READ COMMITTED both transactions
  saw 1.
= @reserve-fix Reserve with one conditional UPDATE (stock >= wanted) and look at the number of rows it changed; no
  row means sold out.
$ Edit | services/inventory/reserve.py | single UPDATE ... WHERE stock >= :n
$ Write | tests/inventory/test_last_item.py | 50 threads fight for 10 units, exactly 10 win
$ Bash | pytest tests/inventory -q | 29 passed in 6.0s
- An advisory lock per SKU would work as well but serialises the hot sellers during a sale.
- The customer of order 88214 got a voucher and the next lamp for free; support has written to him.
* inventory | Stock never goes below zero because the database refuses it with a CHECK constraint; the service only
  translates the refusal into the answer sold out.
+ Check and change in one statement; a read followed by a write is a race ~ last lamp sold twice

## coupon-stacking | brook | 7 15:15 | Coupons can be combined to get money back
- Two coupons of 60 % each on one cart give a total of minus 20 %; the payment provider then refuses a negative
  amount.
$ Bash | pytest tests/coupons -k stack | no tests ran
- Product says: one percentage coupon at most, fixed-amount coupons may be combined, and a total is never below
  zero.
$ Write | tests/coupons/test_stacking.py | table of 24 combinations agreed with product
$ Edit | services/pricing/coupons.py | the best percentage coupon wins, then fixed amounts in order of expiry
$ Bash | pytest tests/coupons -q | 63 passed in 2.1s
- Gift cards are not coupons: they are a means of payment and must not reduce the taxable amount.
= Coupons are applied before shipping is added, so that free-shipping thresholds look at what the customer really
  pays.
- Hypothesis found a cart with a price of zero where the allocation divides by zero; fixed with an early return.
* coupons,pricing | At most one percentage coupon applies to a cart, the best one for the customer; fixed-amount
  coupons may be combined with it, and the total never falls below zero.

## black-friday-load | cyrus | 6 09:30 | Load test at three times last year's peak
> Prove that checkout survives 900 orders per minute, or tell us what breaks first.
$ Bash | k6 run --vus 1200 load/checkout.js | 640 orders/min, error rate 3.1 %, p95 2.9 s
- The database is at 35 % CPU, so the limit is somewhere else; the connection pool is exhausted at 20 per pod.
$ Edit | deploy/checkout/values.yaml | pool size 20 to 12, replicas 4 to 10, pgbouncer in transaction mode
$ Bash | k6 run --vus 1200 load/checkout.js | 910 orders/min, error rate 0.2 %, p95 1.1 s
- @sold-out-page Next bottleneck: the recommendation widget on the confirmation page makes nine requests; it is now
  switched off automatically above 700 orders per minute.
- Prepared statements do not survive pgbouncer in transaction mode; the driver option prepare_threshold=None is
  needed.
x Bash | k6 run --vus 2000 load/checkout.js | aborted: the load generator ran out of ephemeral ports
- Two generators instead of one; the shop itself held 1,480 orders per minute before the mail queue grew without
  limit.
= Confirmation mails may lag by ten minutes in a peak; orders and payments may not.
* @replicas-v1 capacity,deploy | During a sale the checkout deployment runs 10 replicas with 12 database connections
  each behind pgbouncer in transaction mode, planned for 900 orders per minute
+ More pods with smaller pools beat fewer pods with bigger ones behind a pooler ~ load test before Black Friday

## apple-pay | dara | 5 10:00 | Add a wallet button to the checkout
> Add Apple Pay for returning customers. The button must not appear where it cannot work.
$ WebFetch | https://docs.example.com/wallet/merchant-validation | the domain must serve a verification file
- canMakePayments is true on every Mac with Safari, even without a card; canMakePaymentsWithActiveCard is what we
  want.
$ Write | web/src/checkout/WalletButton.tsx | renders nothing until the capability check has resolved
- The sheet shows the shipping methods of the first address only; a change of address must send new totals within 30
  s.
x Bash | npm run e2e -- wallet | merchant validation failed: the verification file was gzipped by the CDN
- @wallet-cdn The CDN compresses everything under /.well-known, and the validator does not accept gzip; that path is
  now excluded from compression.
$ Bash | npm run e2e -- wallet | 7 passed
- Conversion for returning customers on iPhones rose from 61 % to 68 % in the first two days, measured on 4,100
  sessions.
= Wallet payments skip the address form but not the age check for wine and spirits.

## refund-webhook | ada | 4 09:40 | Refund notifications arrive twice
! The ledger shows 31 refunds booked twice since Monday, worth 2,114.60 EUR.
$ Bash | jq .id refunds.ndjson | sort | uniq -d | wc -l | 31
- The processor repeats a webhook when it gets no answer within 5 s; our handler takes 6 s because it sends the mail
  inline.
$ Read | services/refunds/webhook.py | handle(): book(); send_mail(); return 200
= @webhook-fix Answer the webhook as soon as the notification is stored, keyed by the processor's own id, and do
  everything else in a worker.
$ Edit | services/refunds/webhook.py | insert ... on conflict do nothing, then 202
$ Write | services/refunds/worker.py | books the refund and queues the mail
$ Bash | pytest tests/refunds -q | 22 passed in 1.8s
- Finance reversed the 31 double bookings by hand; the list is attached to ticket PAY-771.
- The signature of a webhook is computed over the raw bytes; parsing and re-serialising the JSON breaks it.
* webhooks,refunds | Webhooks are stored under the sender's notification id and answered at once; a worker books
  them, so a repeated delivery changes nothing.
+ Check and change in one statement; a read followed by a write is a race ~ refund booked twice

## timeout-review | cyrus | 3 13:00 | Review of payment timeouts after the outage
- Of 1,902 payments slower than 3 s last month, only 4 succeeded after the fifth second; waiting longer buys
  nothing.
- The processor's own contract promises an answer in 4 s for 99.9 % of authorisations.
$ Bash | python tools/latency.py --service payments --days 30 | p50 310 ms, p99 1.4 s, p99.9 3.8 s
= Shorten the client timeout and keep the number of retries, always with the same idempotency key.
$ Edit | services/checkout/payment_client.py | timeout 8.0 to 5.0
- Asked finance whether the manual review queue may grow: yes, up to 40 orders a day.
* @timeout-v2 ^timeout-v1 payments,timeouts | The payment client gives up after 5 seconds and tries at most 2 more
  times with the same idempotency key, then the order goes to the manual review queue of the finance team
+ A long-lived gRPC connection defeats a balancer that works per connection ~ seen again in the stock service
- The dashboards now show how many retries each order needed; 97 % need none.

## sale-day | cyrus | 2 07:45 | Sale day watch
- 08:00 doors open: 310 orders per minute, all green.
! 09:12 The search cluster rejects writes because a data node is at 95 % disk; prices in the listing are stale.
$ Bash | curl -s es:9200/_cat/allocation | node-3 95 % used, node-1 and node-2 at 61 %
- Old monthly order indices filled node-3; deleting the snapshots of 2022 freed 180 GB and the write block was
  lifted.
- 11:30 peak of 1,040 orders per minute, p95 1.3 s, the recommendation widget switched itself off as planned.
- 12:05 one checkout pod was killed for memory: the PDF invoice renderer keeps every font in memory per request.
= Invoices are rendered by a separate deployment from now on, so that a big PDF cannot take a shopper's cart with
  it.
* @replicas-v2 ^replicas-v1 capacity,deploy | During a sale the checkout deployment runs 14 replicas with 12
  database connections each behind pgbouncer in transaction mode, planned for 900 orders per minute
- 20:00 closing report: 41,877 orders, 0.08 % failed payments, no order lost.
+ Give memory-hungry rendering its own process ~ invoice PDFs killed a checkout pod

## vat-oss | ada | 1 10:20 | VAT rates for deliveries abroad
> From next month we deliver to Finland and Portugal. Which VAT do we charge, and where does it come from?
- Above 10,000 EUR a year of sales to other EU countries the rate of the country of delivery applies; we passed that
  in March.
$ WebFetch | https://taxes.example.eu/rates.json | 27 countries, standard and reduced rates with validity dates
= @vat-table Rates come from a table with a valid-from date, so that an order placed today and shipped next month
  keeps the rate of the day it was placed.
$ Write | services/pricing/migrations/0042_vat_rates.sql | country, category, rate, valid_from
- Finland changes its standard rate to 25.5 % in September; the table already holds the future row.
- Portugal has lower rates for Madeira and the Azores, recognised by postcode: 9000 to 9999.
$ Bash | pytest tests/pricing -q | 71 passed in 4.4s
* vat,pricing | VAT follows the country of delivery and the day the order was placed; rates live in vat_rates with a
  valid-from date and are never edited in place.
- Books are taxed at the reduced rate nearly everywhere; audio books are not books in Finland.
"""
