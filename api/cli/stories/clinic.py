"""What the three agents of a hospital's scheduling app saw and did in nine days (notation: api/cli/fleet.py)."""

SCRIPT = """
## double-booking | hana | 9 08:30 | Two patients in one slot
> The orthopaedic clinic had two patients at 09:20 with the same doctor. How could the app allow that?
$ Bash | psql -c "select * from appointments where room='O2' and starts='09:20'" | two rows, one of them imported
- The booking screen checks for overlaps, the nightly import from the old system does not.
- @overlap-cause Imported appointments have an end time of NULL, and a comparison with NULL is never true, so they
  overlap with nothing.
$ Write | db/0031_no_overlap.sql | EXCLUDE USING gist (doctor WITH =, during WITH &&)
x Bash | psql -f db/0031_no_overlap.sql | 14 existing rows violate the constraint
- Went through the 14 with the ward clerk: 11 were cancelled long ago, 3 had to be moved.
$ Bash | psql -f db/0031_no_overlap.sql | ALTER TABLE
= Overlap is forbidden by the database and not only by the screen; emergency slots carry a flag that exempts them.
* booking | An appointment without an end gets the default length of its type: 20 minutes, 40 for a first visit, 60
  for surgery consultation.
+ Put the rule where every writer must pass, in the database, not on one screen ~ two patients in one slot

## hl7-import | ivo | 9 13:20 | Admissions from the hospital system are missing
! The admissions feed stopped at 12:47; the ward list shows 31 patients, the hospital system has 38.
$ Bash | tail -f mllp.log | AE: unknown segment ZPV at line 9
- The hospital system was upgraded at noon and now sends a local segment ZPV; our parser refuses the whole message.
$ Edit | hl7/parser.py | unknown Z segments are kept as raw text and logged once per type
$ Bash | pytest tests/hl7 -q | 102 passed in 3.3s
- Re-sent the 7 messages from the sender's queue; the ward list is complete again at 13:55.
= @z-segments Segments we do not know are kept and ignored, segments we know but cannot read are an error: never
  drop an admission in silence.
- MSH-10 is the message control id and identifies a repeat; the old parser used the arrival time.
* hl7,integration | The hospital system sends ADT messages over MLLP on port 2575 and repeats each one until it gets
  an AA acknowledgement.
+ Be liberal with what you do not know and strict with what you do ~ admissions feed stopped

## access-review | juno | 8 10:10 | Who may read which patient?
> Before the audit: list every role, what it can read, and why. Start with the receptionists.
$ Bash | python tools/roles.py --matrix | 9 roles, 41 permissions, 6 permissions nobody uses
- Receptionists can open the diagnosis field although they only need name, time and insurance.
- @break-glass Emergency staff can read any record after typing a reason; in three months nobody looked at the 212
  reasons that were typed, among them 40 times the single letter x.
$ Edit | auth/roles.yaml | receptionist loses diagnosis.read
$ Bash | pytest tests/auth -q | 77 passed in 2.9s
= Emergency access needs a reason of at least 15 characters and is reviewed by the ward physician within a week.
- The read log itself contains patient names; it is now kept for 10 years as the law asks, encrypted with its own
  key.
* @session-v1 security,sessions | A workstation session on a ward ends after 15 minutes without input and the screen
  shows only the name of the ward until somebody logs in again with a badge
*private security | Two accounts of former employees were still active; I have told the head of IT and will not name
  them in shared notes.
+ An audit log that nobody reads protects nobody ~ emergency access reasons

## reminder-texts | hana | 8 14:00 | Text message reminders
> No-shows are at 11 %. Send a reminder two days before and let people cancel by answering.
- 38 % of the patients have a mobile number on file that can be verified; landlines get a letter as before.
$ Write | reminders/send.py | picks appointments 48 h ahead, between 09:00 and 19:00 local time only
x Bash | python reminders/send.py --dry-run | 17 reminders for patients who are already in the hospital
- Inpatients are skipped now: the admission feed knows where they are.
$ Bash | pytest tests/reminders -q | 26 passed in 0.9s
= @sms-content A reminder names the time and the building but neither the clinic nor the doctor, because other
  people read the phone.
- Answering NO cancels the appointment and offers the slot to the waiting list; anything else goes to the front
  desk.
- First week: no-shows fell from 11 % to 7.4 %, 212 slots were given to people on the waiting list.
* @reminder-v1 reminders | Reminders go out 48 hours before the appointment by text message between 09:00 and 19:00
  local time, and answering NO cancels the appointment and offers the slot to the waiting list

## dst-night | hana | 7 09:30 | The night the clocks changed
! Dialysis appointments on Sunday morning are shown one hour late on the ward tablets.
$ Grep | timedelta\\(days=7\\) | scheduling/series.py line 44
- A weekly series adds seven times 24 hours to a UTC time, so after the change of clocks it moves by one hour.
= @dst-fix Series are stored as local wall time with the zone Europe/Zurich and turned into an instant only when
  they are shown.
$ Edit | scheduling/series.py | zoneinfo, local time plus seven days
$ Write | tests/scheduling/test_dst.py | both changes of the year, the hour that does not exist, the hour that
  exists twice
$ Bash | pytest tests/scheduling -q | 93 passed in 2.0s
- The 48 dialysis patients were called by the ward; nobody missed a treatment.
- The tablets cache the plan for an hour, so the correction reached the last one at 10:45.
* scheduling,time | Recurring appointments are stored as local wall time plus zone; they are never computed by
  adding 24 hours to an instant.
+ Repeat in local time, not in seconds ~ dialysis series after the change of clocks

## fhir-gateway | ivo | 6 10:40 | Offer free slots to family doctors
> General practitioners want to book directly from their own software. They speak FHIR R4.
$ WebFetch | https://hl7.example.org/fhir/R4/slot.html | Slot: schedule, status, start, end
- Three vendors, three readings of the standard: one searches by service type, one by specialty, one by free text.
$ Write | fhir/slots.py | GET /Slot with start, status, specialty, service-type
$ Bash | python tools/conformance.py fhir | 61 of 64 checks passed
- The three failures concern paging links with a relative address; fixed by giving absolute ones.
= @hold-slot A slot asked for by a practice is held for ten minutes as busy-tentative; without confirmation it
  becomes free again.
x Bash | python tools/load.py fhir --rate 50 | timeouts: every search loads all schedules of all doctors
- An index on (specialty, start) brings the search from 2.3 s to 18 ms.
- Practices authenticate with client certificates; the first two, in Winterthur and Baden, are connected.
* fhir,integration | A slot requested by a family doctor is held as busy-tentative for 10 minutes and becomes free
  again when it is not confirmed.

## waiting-list | hana | 5 08:50 | Fair order on the waiting list
- Slots that become free were offered to whoever was online first, mostly younger patients with the app.
- Medical urgency has three grades, set by a doctor; within a grade the date of referral decides.
= @waitlist-rule Offer a free slot by urgency first and then by date of referral, to three people one after the
  other, with two hours for each to answer.
$ Write | waitlist/offer.py | next_candidate(slot): urgency, referral date, distance as tie-break
$ Bash | pytest tests/waitlist -q | 34 passed in 0.7s
- People without a mobile phone are called by the front desk; their two hours start with the call.
- Simulated on last quarter's data: the median wait of urgent patients falls from 19 to 8 days, of the others it
  rises by 2.
- The ethics board asked to leave out distance as a tie-break; it is a coin toss now, recorded with its seed.
* waitlist | The waiting list is ordered by urgency and then by date of referral; ties are broken by a recorded coin
  toss.

## consent-export | juno | 5 13:40 | A patient wants all of his data
> Mr. K. asks for a copy of everything we have about him. The law gives us 30 days, we have used 26.
$ Bash | python tools/export.py --patient 55120 | 14 tables, 3 PDFs, 212 read-log entries
- The export left out the free-text notes of the call centre, because they are keyed by telephone number.
- @third-party One note mentions his sister's illness; information about third persons has to be blacked out before
  it is handed over.
$ Edit | export/notes.py | finds notes by telephone number, marks persons other than the patient
= Exports are read by a human before they are handed out; the tool only prepares them and counts what is missing.
- Handed over on day 28, in person, against an identity card.
$ Bash | pytest tests/export -q | 19 passed in 1.5s
* privacy | A request for personal data is answered within 30 days; a person reads the export and blacks out what
  concerns others.

## printer-queue | ivo | 4 09:15 | Wristbands print on the wrong floor
! Ward 4 printed three wristbands that belong to ward 7; a nurse noticed before they were used.
$ Bash | lpstat -t | queue zebra-07 has the address of the printer on ward 4
- @wristband-cause The network team renumbered the fourth floor on Sunday; printers were addressed by IP, and two of
  them swapped theirs.
= Printers are addressed by the serial number they report, and the queue refuses to print when it does not match the
  ward.
$ Write | printing/guard.py | asks the printer for its serial number before each job
$ Bash | pytest tests/printing -q | 12 passed in 0.4s
- Reported to patient safety as a near miss, number 2231.
- The guard costs 80 ms per wristband, which nobody notices.
* printing,safety | A wristband is printed only when the printer's serial number belongs to the ward of the patient;
  otherwise the job stops.
+ An address says where something was, not what it is: check identity before acting ~ wristbands on the wrong floor

## reminder-tuning | hana | 3 10:00 | Reminders, second round
- 60 patients answered that two days are too short to arrange a replacement at work.
- Trial with 800 appointments: three days ahead gives 6.1 % no-shows, two days 7.4 %, five days 8.0 %.
= Move the reminder to three days ahead and leave everything else as it is.
$ Edit | reminders/send.py | HOURS_AHEAD = 72
* @reminder-v2 ^reminder-v1 reminders | Reminders go out 72 hours before the appointment by text message between
  09:00 and 19:00 local time, and answering NO cancels the appointment and offers the slot to the waiting list
$ Bash | pytest tests/reminders -q | 27 passed in 0.9s
- French and Italian texts were checked by colleagues from Lausanne and Lugano; the Italian one had the wrong form
  of address.
+ Be liberal with what you do not know and strict with what you do ~ answers such as No! and nein count as NO

## badge-login | juno | 2 09:00 | Nurses share logins because badges are slow
> Audit finding: on ward 3 one login was used on five workstations at the same time.
- Logging in with a badge takes 14 seconds; nurses do it 70 times a shift, so they stay logged in.
$ Bash | python tools/trace_login.py | 9.8 s of the 14 are spent loading the roaming desktop profile
- @slow-badge The directory server looks up 212 group memberships one by one; nested groups are the reason it takes
  so long.
$ Edit | auth/groups.py | one query with the transitive membership rule
$ Bash | python tools/trace_login.py | 2.1 s
= Badge login opens only the scheduling app, without the desktop; a full login stays possible with a password.
- One week later the number of shared logins on ward 3 is zero, without any further training.
* @session-v2 ^session-v1 security,sessions | A workstation session on a ward ends after 5 minutes without input and
  the screen shows only the name of the ward until somebody logs in again with a badge
+ When people work around security, measure how long the secure way takes ~ shared logins on ward 3

## restore-drill | ivo | 1 08:20 | Can we restore yesterday?
> Show that the appointment database can be restored within an hour, with witnesses.
$ Bash | pgbackrest restore --type=time --target=yesterday-18:00 | 212 GB in 38 minutes
x Bash | psql -c "select max(starts) from appointments" | relation appointments does not exist: restored the wrong
  cluster
- The stanza names of test and production differ by one letter; the runbook now says the whole command.
$ Bash | pgbackrest --stanza=clinic-prod restore --type=time | 214 GB in 41 minutes
- @restore-gap After the restore the text messages of 26 hours would have been sent again; sending is now stopped
  before a restore begins.
= A restore drill takes place every quarter, at a time when the clinics are closed, and the pharmacist counts as a
  witness.
- The paper plan for an outage hangs in every ward office; two wards had the version of 2019.
* operations,backup | A full restore of the appointment database takes 41 minutes from pgbackrest; stop the
  reminders first, or old messages go out again.
- All 1,204 appointments of the next three days were compared with the printed lists: no difference.
"""
