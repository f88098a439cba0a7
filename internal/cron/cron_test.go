package cron_test

import (
	"slices"
	"testing"
	"time"

	"posthaste/internal/cron"
)

// Contract, messages 6.3 and U-61.
func TestNext(t *testing.T) {
	tests := []struct {
		name  string
		text  string
		after string
		want  []string
	}{
		{"every minute", "* * * * *", "2025-01-31T23:58:00Z",
			[]string{"2025-01-31T23:59:00Z", "2025-02-01T00:00:00Z", "2025-02-01T00:01:00Z"}},
		{"within a minute", "* * * * *", "2025-01-01T10:00:00.000000001Z", []string{"2025-01-01T10:01:00Z"}},
		{"just before a tick", "0 10 * * *", "2025-01-01T09:59:59.999999999Z", []string{"2025-01-01T10:00:00Z"}},
		{"at a tick", "0 10 * * *", "2025-01-01T10:00:00Z", []string{"2025-01-02T10:00:00Z"}},
		{"list", "5,20 8 * * *", "2025-01-01T00:00:00Z",
			[]string{"2025-01-01T08:05:00Z", "2025-01-01T08:20:00Z", "2025-01-02T08:05:00Z"}},
		{"range", "0 9-11 * * *", "2025-01-01T09:00:00Z",
			[]string{"2025-01-01T10:00:00Z", "2025-01-01T11:00:00Z", "2025-01-02T09:00:00Z"}},
		{"step", "*/25 * * * *", "2025-01-01T00:00:00Z",
			[]string{"2025-01-01T00:25:00Z", "2025-01-01T00:50:00Z", "2025-01-01T01:00:00Z"}},
		{"step in a range", "0 1-9/4 * * *", "2025-01-01T00:00:00Z",
			[]string{"2025-01-01T01:00:00Z", "2025-01-01T05:00:00Z", "2025-01-01T09:00:00Z", "2025-01-02T01:00:00Z"}},
		{"step from a value on", "50/4 * * * *", "2025-01-01T00:00:00Z",
			[]string{"2025-01-01T00:50:00Z", "2025-01-01T00:54:00Z", "2025-01-01T00:58:00Z", "2025-01-01T01:50:00Z"}},
		{"step longer than its range", "*/60 * * * *", "2025-01-01T00:00:00Z",
			[]string{"2025-01-01T01:00:00Z", "2025-01-01T02:00:00Z"}},
		{"office hours", "0 9-17 * * MON-FRI", "2025-01-03T16:30:00Z", // a Friday
			[]string{"2025-01-03T17:00:00Z", "2025-01-06T09:00:00Z"}},
		{"month names", "0 0 1 feb,Apr *", "2025-01-01T00:00:00Z",
			[]string{"2025-02-01T00:00:00Z", "2025-04-01T00:00:00Z", "2026-02-01T00:00:00Z"}},
		{"Sunday is 0", "0 0 * * 0", "2025-01-01T00:00:00Z", []string{"2025-01-05T00:00:00Z", "2025-01-12T00:00:00Z"}},
		{"Sunday is 7", "0 0 * * 7", "2025-01-01T00:00:00Z", []string{"2025-01-05T00:00:00Z", "2025-01-12T00:00:00Z"}},
		{"Sunday ends a range", "0 0 * * FRI-7", "2025-01-01T00:00:00Z",
			[]string{"2025-01-03T00:00:00Z", "2025-01-04T00:00:00Z", "2025-01-05T00:00:00Z", "2025-01-10T00:00:00Z"}},
		{"Sunday ends a range by its name", "0 0 * * fri-Sun", "2025-01-01T00:00:00Z",
			[]string{"2025-01-03T00:00:00Z", "2025-01-04T00:00:00Z", "2025-01-05T00:00:00Z", "2025-01-10T00:00:00Z"}},
		{"Sunday ends a range as 0", "0 0 * * 6-0", "2025-01-01T00:00:00Z",
			[]string{"2025-01-04T00:00:00Z", "2025-01-05T00:00:00Z", "2025-01-11T00:00:00Z"}},
		{"Sunday ends a range with a step", "0 0 * * THU-SUN/3", "2025-01-01T00:00:00Z",
			[]string{"2025-01-02T00:00:00Z", "2025-01-05T00:00:00Z", "2025-01-09T00:00:00Z"}},
		{"a whole week from Monday", "0 0 * * MON-SUN", "2025-01-04T00:00:00Z",
			[]string{"2025-01-05T00:00:00Z", "2025-01-06T00:00:00Z", "2025-01-07T00:00:00Z"}},
		{"Sunday begins a range", "0 0 * * SUN-MON", "2025-01-01T00:00:00Z",
			[]string{"2025-01-05T00:00:00Z", "2025-01-06T00:00:00Z", "2025-01-12T00:00:00Z"}},
		{"Sunday begins and ends a range", "0 0 * * SUN-SUN", "2025-01-01T00:00:00Z",
			[]string{"2025-01-05T00:00:00Z", "2025-01-12T00:00:00Z"}},
		{"step in the week does not reach its second Sunday", "0 0 * * 1/2", "2025-01-03T00:00:00Z",
			[]string{"2025-01-06T00:00:00Z"}},
		{"step on Sunday's second number", "0 0 * * 7/2", "2025-01-01T00:00:00Z",
			[]string{"2025-01-05T00:00:00Z", "2025-01-12T00:00:00Z"}},
		{"day of month or day of week", "0 0 13 * FRI", "2025-06-01T00:00:00Z",
			[]string{"2025-06-06T00:00:00Z", "2025-06-13T00:00:00Z", "2025-06-20T00:00:00Z", "2025-06-27T00:00:00Z",
				"2025-07-04T00:00:00Z", "2025-07-11T00:00:00Z", "2025-07-13T00:00:00Z"}},
		{"day of month with a star", "0 0 *,13 * FRI", "2025-06-06T00:00:00Z", []string{"2025-06-13T00:00:00Z"}},
		{"day of month with a step of one", "0 0 */1 * FRI", "2025-06-06T00:00:00Z", []string{"2025-06-13T00:00:00Z"}},
		{"day of month with a longer step", "0 0 */2 * FRI", "2025-06-05T00:00:00Z",
			[]string{"2025-06-06T00:00:00Z", "2025-06-07T00:00:00Z", "2025-06-09T00:00:00Z"}},
		{"question mark", "0 0 ? * FRI", "2025-06-06T00:00:00Z", []string{"2025-06-13T00:00:00Z"}},
		{"short months are passed over", "0 0 31 * *", "2025-01-31T00:00:00Z",
			[]string{"2025-03-31T00:00:00Z", "2025-05-31T00:00:00Z"}},
		{"leap day", "0 0 29 2 *", "2025-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
		{"leap day over a common century", "0 0 29 FEB *", "2096-02-29T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
		{"leap day or Monday", "0 0 29 2 1", "2025-02-20T00:00:00Z", []string{"2025-02-24T00:00:00Z", "2026-02-02T00:00:00Z"}},
		{"hourly", "@hourly", "2025-01-01T00:30:00Z", []string{"2025-01-01T01:00:00Z", "2025-01-01T02:00:00Z"}},
		{"daily", "@daily", "2025-01-01T00:30:00Z", []string{"2025-01-02T00:00:00Z"}},
		{"midnight", "@Midnight", "2025-01-01T00:30:00Z", []string{"2025-01-02T00:00:00Z"}},
		{"weekly", "@weekly", "2025-01-01T00:30:00Z", []string{"2025-01-05T00:00:00Z"}},
		{"monthly", "@monthly", "2025-01-01T00:30:00Z", []string{"2025-02-01T00:00:00Z"}},
		{"yearly", "@yearly", "2025-01-01T00:30:00Z", []string{"2026-01-01T00:00:00Z"}},
		{"annually", "@ANNUALLY", "2025-01-01T00:30:00Z", []string{"2026-01-01T00:00:00Z"}},
		{"interval within a day", "@every 90m", "2025-01-01T22:40:30Z",
			[]string{"2025-01-02T00:00:00Z", "2025-01-02T01:30:00Z"}},
		{"interval of weeks", "@every 168h", "2025-01-01T00:00:00Z", // a Wednesday
			[]string{"2025-01-06T00:00:00Z", "2025-01-13T00:00:00Z"}},
		{"interval in a zone", "TZ=Asia/Kolkata @every 24h", "2025-01-01T00:00:00Z", []string{"2025-01-02T05:30:00+05:30"}},
		{"zone", "CRON_TZ=America/New_York 0 9 * * *", "2025-01-01T14:00:00Z",
			[]string{"2025-01-02T09:00:00-05:00"}},
		{"short prefix of a zone", "TZ=Asia/Kolkata 0 9 * * *", "2025-01-01T04:00:00Z",
			[]string{"2025-01-02T09:00:00+05:30"}},
		{"zone of a shortcut", "TZ=Asia/Tokyo @daily", "2025-01-01T00:00:00Z", []string{"2025-01-02T00:00:00+09:00"}},
		{"zone and day of week", "TZ=Pacific/Kiritimati 0 1 * * MON", "2025-01-05T00:00:00Z", // Sunday in UTC
			[]string{"2025-01-06T01:00:00+14:00"}},
		{"blanks", " \tTZ=UTC\t 0   9 * *  * ", "2025-01-01T00:00:00Z", []string{"2025-01-01T09:00:00Z"}},
		{"last day of a leap year", "TZ=America/New_York 0 9,21 * * *", "2028-12-31T05:00:00Z",
			[]string{"2028-12-31T09:00:00-05:00", "2028-12-31T21:00:00-05:00", "2029-01-01T09:00:00-05:00"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			checkTicks(t, test.text, test.after, test.want)
		})
	}
}

// TestNextWhenTheClockIsSet writes out what the daylight-saving suite computes
// (contract, U-61).
func TestNextWhenTheClockIsSet(t *testing.T) {
	tests := []struct {
		name  string
		text  string
		after string
		want  []string
	}{
		{"skipped time", "TZ=Europe/Berlin 30 2 * * *", "2025-03-29T12:00:00Z",
			[]string{"2025-03-31T02:30:00+02:00"}},
		{"skipped hour of some", "TZ=Europe/Berlin 0 1-3 * * *", "2025-03-29T23:00:00Z",
			[]string{"2025-03-30T01:00:00+01:00", "2025-03-30T03:00:00+02:00", "2025-03-31T01:00:00+02:00"}},
		{"skipped hour of all", "TZ=Europe/Berlin 30 * * * *", "2025-03-30T00:00:00Z",
			[]string{"2025-03-30T01:30:00+01:00", "2025-03-30T03:30:00+02:00"}},
		{"skipped midnight", "TZ=America/Santiago @daily", "2025-09-06T12:00:00Z",
			[]string{"2025-09-08T00:00:00-03:00"}},
		{"repeated time", "TZ=Europe/Berlin 30 2 * * *", "2025-10-25T12:00:00Z",
			[]string{"2025-10-26T02:30:00+02:00", "2025-10-27T02:30:00+01:00"}},
		{"repeated time, asked within the repetition", "TZ=Europe/Berlin 30 2 * * *", "2025-10-26T01:10:00Z",
			[]string{"2025-10-27T02:30:00+01:00"}},
		{"repeated hour of some, every minute of it", "TZ=Europe/Berlin */30 2,3 * * *", "2025-10-25T23:00:00Z",
			[]string{"2025-10-26T02:00:00+02:00", "2025-10-26T02:30:00+02:00", "2025-10-26T03:00:00+01:00"}},
		{"repeated hour of all", "TZ=Europe/Berlin */30 * * * *", "2025-10-26T00:00:00Z",
			[]string{"2025-10-26T02:30:00+02:00", "2025-10-26T02:00:00+01:00", "2025-10-26T02:30:00+01:00", "2025-10-26T03:00:00+01:00"}},
		{"all hours by another name", "TZ=Europe/Berlin 0 0-11,12-23 * * *", "2025-10-26T00:00:00Z",
			[]string{"2025-10-26T02:00:00+01:00", "2025-10-26T03:00:00+01:00"}},
		{"repeated hour of the day before", "TZ=America/Santiago 30 23 5 4 *", "2025-04-05T12:00:00Z",
			[]string{"2025-04-05T23:30:00-03:00", "2026-04-05T23:30:00-04:00"}},
		{"half an hour repeated", "TZ=Australia/Lord_Howe */15 1 * * *", "2025-04-05T14:20:00Z",
			[]string{"2025-04-06T01:30:00+11:00", "2025-04-06T01:45:00+11:00", "2025-04-07T01:00:00+10:30"}},
		{"half an hour repeated, all hours", "TZ=Australia/Lord_Howe */15 * * * *", "2025-04-05T14:40:00Z",
			[]string{"2025-04-06T01:45:00+11:00", "2025-04-06T01:30:00+10:30", "2025-04-06T01:45:00+10:30", "2025-04-06T02:00:00+10:30"}},
		{"skipped day", "TZ=Pacific/Apia 0 12 * * *", "2011-12-29T12:00:00Z",
			[]string{"2011-12-29T12:00:00-10:00", "2011-12-31T12:00:00+14:00"}},
		{"interval", "TZ=Europe/Berlin @every 1h", "2025-10-26T00:00:00Z",
			[]string{"2025-10-26T02:00:00+01:00", "2025-10-26T03:00:00+01:00"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			checkTicks(t, test.text, test.after, test.want)
		})
	}
}

// TestNextWithoutTick uses the Egypt of the sixties, whose clocks were set forward
// at one o'clock on each first of May, until 1981.
func TestNextWithoutTick(t *testing.T) {
	skipped := mustParse(t, "TZ=Africa/Cairo 30 1 1 5 *")
	if tick := skipped.Next(instant(t, "1960-01-01T00:00:00Z")); !tick.IsZero() {
		t.Errorf("tick at %v, want none for ten years", tick)
	}
	checkTicks(t, "TZ=Africa/Cairo 30 1 1 5 *", "1975-01-01T00:00:00Z", []string{"1982-05-01T01:30:00+02:00"})
}

func TestNextDropsMonotonicClock(t *testing.T) {
	now := time.Now()
	for _, text := range []string{"* * * * *", "@every 1m"} {
		schedule := mustParse(t, text)
		if a, b := schedule.Next(now), schedule.Next(now.Round(0)); a != b {
			t.Errorf("%s: Next(now) = %#v, want %#v", text, a, b)
		}
	}
}

func checkTicks(t *testing.T, text, after string, want []string) {
	t.Helper()
	schedule := mustParse(t, text)
	at := instant(t, after)
	var got []string
	for range want {
		at = schedule.Next(at)
		got = append(got, at.Format(time.RFC3339Nano))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q after %s\ngot  %v\nwant %v", text, after, got, want)
	}
}

func mustParse(t testing.TB, text string) cron.Schedule {
	t.Helper()
	schedule, err := cron.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return schedule
}

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
