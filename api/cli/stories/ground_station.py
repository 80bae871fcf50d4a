"""What the three agents of a satellite ground station saw and did in nine days (notation: api/cli/fleet.py)."""

SCRIPT = """
## frame-sync | fern | 9 08:15 | Frames are lost in the first minute of a pass
> We lose the first 40 to 60 seconds of every pass of KESTREL-2. The spacecraft team says it transmits from the
  horizon on.
$ Bash | python tools/framestat.py pass_4411.iq | 1st valid frame at +52 s, Eb/N0 already 9 dB at +8 s
- The signal is strong enough; what is missing is lock. The demodulator starts 11 kHz away from the carrier.
$ Grep | doppler_offset | set in scheduler/passes.py, read nowhere in demod/
- @doppler-cause The predicted Doppler shift is computed by the scheduler but the demodulator never gets it, so the
  carrier loop has to pull in from 11 kHz by itself.
$ Edit | demod/config.py | initial_offset_hz taken from the pass plan, refreshed every second
$ Bash | python tools/replay.py pass_4411.iq | 1st valid frame at +9 s
- Replayed twelve recorded passes: on average 41 seconds of telemetry gained per pass.
= The carrier loop keeps its narrow 200 Hz bandwidth; a wider one would lock sooner but lose frames at low
  elevation.
* demodulator | The attached sync marker is 1ACFFC1D; up to 3 wrong bits are tolerated while searching and 6 once in
  lock.
+ @raw-samples Record raw samples of a bad pass before changing anything; a replay settles every argument
  ~ lost first minute of passes

## pass-4418 | gus | 9 21:40 | Night watch, passes 4418 to 4421
- Pass 4418 KESTREL-2, maximum elevation 64 degrees: 11,204 frames, 3 lost, battery 7.9 V at the end of eclipse.
- Pass 4419 KESTREL-1, 12 degrees only: 2,010 frames, 310 lost below 7 degrees because of the new crane in the east.
! Pass 4420: the azimuth motor stopped at 183 degrees with error E17, the rest of the pass was lost.
$ Bash | rotctl -m 601 -r /dev/ttyUSB0 p | 183.0 32.5
- Power-cycling the controller cleared E17; the motor moved freely afterwards.
- Asked for someone to look at the cable wrap by daylight: 183 degrees is where it is tightest.
- Pass 4421 KESTREL-2: normal, 9,870 frames.
= @crane-mask Until the crane is gone the horizon mask in the east is 9 degrees; passes that never rise above it are
  not booked.
* operations,antenna | Error E17 of the rotator controller means over-current; power-cycle it once, and if it
  returns stop the antenna and call the mechanical team.

## kafka-lag | eero | 8 09:20 | Telemetry arrives minutes late in the dashboards
> Flight dynamics complains that housekeeping data is up to eight minutes old during busy passes.
$ Bash | kafka-consumer-groups --describe --group decom | partition 3 lag 184,000, all others below 50
- All frames of KESTREL-2 have the same key, the spacecraft id, so they land in a single partition.
- Ordering is only needed within one virtual channel, not within the whole spacecraft.
= @kafka-key Key the topic by spacecraft and virtual channel; that keeps the order where it matters and spreads the
  load over eight partitions.
$ Edit | pipeline/producer.py | key = f"{scid}:{vcid}"
$ Bash | pytest tests/pipeline -q | 88 passed in 9.1s
- After the change the largest lag in a busy pass is 900 frames, about two seconds.
x Bash | python tools/reprocess.py --from 2 days | killed: out of memory while sorting all frames of two days
$ Edit | tools/reprocess.py | reads hour by hour, merges with heapq
- Reprocessed the two days overnight: 1.9 million frames, 212 duplicates dropped by their frame counter.
* @retention-v1 kafka,storage | Raw frames stay in Kafka for 3 days and decommutated parameters for 14 days; after
  that both are read from the Parquet archive in the object store
+ Choose the partition key by where order matters, not by who sent it ~ telemetry lag

## crc-errors | fern | 8 13:30 | Checksum errors only on Tuesdays
- Frame error rate is ten times higher between 10:00 and 11:30 on Tuesdays, on both antennas.
$ Bash | python tools/spectrum.py --band 435 --day tue | a carrier 8 kHz wide at 435.31 MHz, 12 dB above the noise
- The interferer is strongest at azimuth 240, which is the direction of the airfield.
- @airfield-cause The airfield tests its emergency beacon trainer every Tuesday morning; the man in the tower
  confirmed it and is willing to move it to 121.65 MHz.
$ Write | demod/notch.py | adaptive notch, 10 kHz, engages above 6 dB
$ Bash | python tools/replay.py pass_4402.iq --notch | frame error rate 4.1 % to 0.3 %
= The notch filter is only active when the scheduler marks a pass as disturbed, because it costs 0.4 dB otherwise.
- Reed-Solomon corrects up to 16 symbols per codeword; passes with interference used 13 on average, close to the
  edge.
* interference | The airfield at azimuth 240 disturbs 435.31 MHz on Tuesdays from 10:00 to 11:30; mark these passes
  as disturbed.

## leap-second | eero | 7 10:00 | Timestamps jump by one second
! Two parameters of the same frame carry times that are exactly 1.000 s apart.
$ Grep | 37 | TAI_UTC = 37 in decom/time.py, LEAP = 36 in pipeline/clock.py
- @leap-cause Two modules convert on-board time to UTC, and one of them still has the leap second table of 2015.
$ Edit | pipeline/clock.py | uses decom.time, the second table is gone
- The spacecraft counts TAI seconds since 2000-01-01; the fine part has 1/256 s.
$ Bash | pytest tests/time -q | 31 passed in 0.6s
= Inside the pipeline every time is TAI in nanoseconds; UTC exists only at the edge, in dashboards and exports.
- Flight dynamics re-ran the orbit determination of last week: residuals shrank from 7.4 km to 90 m.
- The archive of the affected 5 days is marked with quality flag 2 and will be rewritten on Friday.
* time | On-board time is TAI seconds since 2000-01-01 with a fine part of 1/256 s; it is converted to UTC only for
  people.
+ Keep one clock conversion in one place; two tables always drift ~ leap second mix-up

## parquet-archive | eero | 6 09:00 | Queries on the archive take minutes
$ Bash | duckdb -c "select count(*) from 'archive/2024/*.parquet'" | 48,112 files, 71 s
- One file per pass and virtual channel gives tens of thousands of tiny files; listing them takes most of the time.
= @compaction Compact every night into one file per spacecraft and day, sorted by parameter and time, with row
  groups of 128 MB.
$ Write | archive/compact.py | writes to a temporary name, renames, then deletes the inputs
$ Bash | duckdb -c "select max(value) from day where parameter='BATT_V'" | 0.4 s instead of 19 s
x Bash | python archive/compact.py --day 2024-02-29 | schema mismatch: parameter GYRO_T is int16 before firmware 3.1
  and float after
- Parameters whose type changed are stored as float with the firmware version next to the value.
- The compaction of a day takes 50 s and 3 GB of memory; it runs at 03:30 when no pass is booked.
- Deleted inputs are kept for a week in a bin bucket, in case a reader has an old listing.
* archive | The archive has one Parquet file per spacecraft and day, sorted by parameter and then by time;
  compaction runs at 03:30 UTC.

## beacon-decoder | fern | 5 11:10 | Decode the beacon of a guest satellite
> A partner university asks us to listen to PUFFIN-1, 9600 baud GMSK on 437.2 MHz. They send a PDF and hope.
$ Read | docs/puffin_beacon.pdf | AX.25 frames, G3RUH scrambler, 17 telemetry fields, little endian
- The document says little endian, but the battery voltage only makes sense as big endian.
$ Write | decoders/puffin.py | HDLC framing, descrambler, 17 fields
$ Bash | pytest tests/decoders -q | 54 passed in 1.1s
- First contact: 38 beacons decoded in one pass of 51 degrees, solar panel Y2 reads zero in all of them.
- @puffin-panel The partner confirmed that panel Y2 was damaged during integration; zero is right and not our
  mistake.
= Guest decoders run in their own process with a memory limit and may never write to the topics of our own
  spacecraft.
- Sent the students a notebook with the decoded values and a plot of the spin rate, 3.2 degrees per second.
* decoders,guests | PUFFIN-1 sends big-endian values although its interface document says little endian; the partner
  will correct the document.

## rotator-repair | gus | 5 20:55 | Night watch after the rotator repair
- The mechanical team replaced the azimuth cable and moved the stop from 180 to 270 degrees; E17 has not come back.
- Pass 4460 KESTREL-1, 71 degrees, flip through the zenith: pointing error below 0.6 degrees all the way.
- Pass 4462 KESTREL-2: 10,450 frames, none lost.
! 02:14 The uninterruptible supply reports a weak battery: 9 minutes left at the present load instead of 25.
- Switched the air conditioning of the rack to the mains-only circuit; now 16 minutes.
= @shed-load In a power failure the order of switching off is: displays, guest decoders, archive; the demodulators
  stay on to the end.
- Ordered two new 12 V blocks from the supplier in Tromso, delivery on Thursday.
- Quiet after 03:00; wrote the handover while the aurora was out.
* operations,power | The uninterruptible supply holds the rack for 16 minutes without the air conditioning; the
  diesel generator needs 40 seconds to take over.

## command-uplink | gus | 4 19:30 | A telecommand was executed twice
! KESTREL-1 switched its camera on, off, and on again: the counter of accepted telecommands went up by 3 instead of
  2.
$ Bash | grep TC_SEQ uplink.log | tail -4 | TC 118 was sent at 19:31:02 and again at 19:31:07
- The acknowledgement arrived 5.2 s after the command because the downlink was fading, and the station repeats after
  5.0 s.
- The repeat carried a new sequence number, so the spacecraft could not tell that it was the same command.
= @tc-repeat A repeated telecommand keeps its sequence number; the spacecraft then answers with duplicate and does
  nothing.
$ Edit | uplink/sender.py | sequence number is drawn when the command is queued, not when it is sent
$ Bash | pytest tests/uplink -q | 40 passed in 2.2s
- Told the payload team that the extra image was taken by accident; they are happy with it.
* uplink | Critical telecommands (transmitter off, firmware upload, deorbit) need two operators and are never
  repeated automatically.
+ Give a request its number when it is made, not when it is sent, so that a repeat is recognisable ~ telecommand
  executed twice

## storage-review | eero | 3 09:45 | Disk space for raw frames
- A third spacecraft adds 40 GB of raw frames per day from next month; the brokers have 1.1 TB each.
$ Bash | df -h /var/lib/kafka | 71 % used on broker-2, 58 % on the others
- In practice nobody read raw frames from Kafka that were older than 30 hours; later requests went to the archive.
= Keep raw frames for a shorter time; the archive has them within the hour anyway.
$ Edit | deploy/topics.yaml | retention.ms for frames.raw
* @retention-v2 ^retention-v1 kafka,storage | Raw frames stay in Kafka for 2 days and decommutated parameters for 14
  days; after that both are read from the Parquet archive in the object store
- broker-2 fell to 52 % after the log cleaner had run.
- Compression with zstd instead of lz4 would save another 18 % but costs one core per broker; not now.

## limit-checks | fern | 2 10:30 | Too many alarms from limit checks
> Operators get 400 yellow alarms a night and have stopped reading them. Propose something better.
$ Bash | python tools/alarms.py --days 14 | 5,610 alarms, 71 % of them from 4 thermal sensors at eclipse entry
- @eclipse-alarms Those four sensors cross their limit twice per orbit by design, when the spacecraft enters and
  leaves the shadow.
- The limits were copied from the ground test chamber and never adapted to flight.
= Limits may depend on mode: sunlight, eclipse, and the ten minutes after each transition; a value must be out for 3
  samples.
$ Write | monitor/limits.yaml | 22 parameters with limits per mode
$ Bash | python tools/alarms.py --replay 14 | 212 alarms, all 9 that mattered are among them
- The reaction wheel of KESTREL-1 is among the nine: its current rises by 2 mA per week since spring.
* @wheel-v1 monitoring,alarms | A yellow alarm needs 3 consecutive samples out of limits and a red alarm needs 2;
  thermal limits of the spacecraft depend on whether it is in sunlight or in eclipse
+ An alarm that fires by design teaches people to ignore alarms ~ 400 yellow alarms a night

## handover | gus | 1 06:10 | Morning handover
- Nine passes tonight, 83,204 frames, 41 lost; one yellow alarm, real: wheel current of KESTREL-1 at 212 mA.
- The new batteries of the uninterruptible supply are in: 27 minutes at full load, tested with the main breaker off.
- @lightning Thunderstorm at 01:20: followed the procedure, parked both antennas at zenith and unplugged the
  preamplifiers for 50 minutes; one pass skipped.
- After the storm the preamplifier of antenna B has 0.7 dB less gain than before; still within its specification.
= A red alarm should react at once, so the number of samples it needs goes down to one.
* @wheel-v2 ^wheel-v1 monitoring,alarms | A yellow alarm needs 3 consecutive samples out of limits and a red alarm
  needs only 1; thermal limits of the spacecraft depend on whether it is in sunlight or in eclipse
+ Record raw samples of a bad pass before changing anything; a replay settles every argument ~ preamplifier after
  the storm
"""
