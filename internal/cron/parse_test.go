package cron_test

import (
	"strings"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/cron"
)

// Contract, U-61.
func TestParseErrors(t *testing.T) {
	const noFields = " fields, not the 5 for minute, hour, day of month, month and day of week"
	const noZone = " is not a time zone of the IANA database, such as Europe/Paris"
	const noInterval = " is not a duration in whole minutes from 1m to 8760h, such as 90m or 1h30m"
	const noShortcut = " is not one of @annually @daily @hourly @midnight @monthly @weekly @yearly, or @every with an interval"
	const never = "it would never tick: none of its months has such a day"
	tests := []struct {
		name string
		text string
		want string // after the expression
	}{
		{"empty", "", "it has 0" + noFields},
		{"blank", " \t\n", "it has 0" + noFields},
		{"four fields", "* * * *", "it has 4" + noFields},
		{"six fields", "0 0 0 * * *", "it has 6" + noFields},
		{"zone alone", "CRON_TZ=Europe/Paris", "it has 0" + noFields},
		{"shortcut and more", "@daily 5", "it has 2" + noFields},
		{"minute too high", "60 * * * *", `minute "60" is not a number from 0 to 59`},
		{"hour too high", "0 24 * * *", `hour "24" is not a number from 0 to 23`},
		{"day too low", "0 0 0 * *", `day of month "0" is not a number from 1 to 31`},
		{"day too high", "0 0 32 * *", `day of month "32" is not a number from 1 to 31`},
		{"month too high", "0 0 * 13 *", `month "13" is not a number from 1 to 12 or a name from JAN to DEC`},
		{"month name", "0 0 * JANUARY *", `month "JANUARY" is not a number from 1 to 12 or a name from JAN to DEC`},
		{"weekday too high", "0 0 * * 8", `day of week "8" is not a number from 0 to 7 or a name from SUN to SAT`},
		{"name of another field", "0 0 * MON *", `month "MON" is not a number from 1 to 12 or a name from JAN to DEC`},
		{"number too large for any type", "18446744073709551616 * * * *", `minute "18446744073709551616" is not a number from 0 to 59`},
		{"negative", "-5 * * * *", `minute "" is not a number from 0 to 59`},
		{"plus", "+5 * * * *", `minute "+5" is not a number from 0 to 59`},
		{"fraction", "1.5 * * * *", `minute "1.5" is not a number from 0 to 59`},
		{"empty item", "1,,2 * * * *", `minute "" is not a number from 0 to 59`},
		{"comma at the end", "1, * * * *", `minute "" is not a number from 0 to 59`},
		{"range without end", "1- * * * *", `minute "" is not a number from 0 to 59`},
		{"range from a star", "*-5 * * * *", `minute "*" is not a number from 0 to 59`},
		{"range of three", "1-2-3 * * * *", `minute "2-3" is not a number from 0 to 59`},
		{"range too high", "0 20-24 * * *", `hour "24" is not a number from 0 to 23`},
		{"range backwards", "0 22-6 * * *", `hour range "22-6" runs backwards, a range goes from a lower value to a higher one`},
		{"hour range back to 0", "0 20-0 * * *", `hour range "20-0" runs backwards, a range goes from a lower value to a higher one`},
		{"hour range back to 16", "0 20-16 * * *", `hour range "20-16" runs backwards, a range goes from a lower value to a higher one`},
		{"week range backwards", "0 0 * * SAT-MON", `day of week range "SAT-MON" runs backwards, a range goes from a lower value to a higher one`},
		{"week range from the second Sunday", "0 0 * * 7-2", `day of week range "7-2" runs backwards, a range goes from a lower value to a higher one`},
		{"month range backwards", "0 0 1 NOV-FEB *", `month range "NOV-FEB" runs backwards, a range goes from a lower value to a higher one`},
		{"end of the week unknown", "0 0 * * FRI-DOM", `day of week "DOM" is not a number from 0 to 7 or a name from SUN to SAT`},
		{"step of zero", "*/0 * * * *", `minute step "0" is not a number from 1 to 9999`},
		{"step too long", "*/10000 * * * *", `minute step "10000" is not a number from 1 to 9999`},
		{"step missing", "*/ * * * *", `minute step "" is not a number from 1 to 9999`},
		{"two steps", "*/2/3 * * * *", `minute step "2/3" is not a number from 1 to 9999`},
		{"last day", "0 0 L * *", `day of month "L" is not a number from 1 to 31`},
		{"February 30", "0 0 30 2 *", never},
		{"day 31 of short months", "0 0 31 2,4,6,9,11 *", never},
		{"zone unknown", "CRON_TZ=Mars/Olympus 0 0 * * *", `"Mars/Olympus"` + noZone},
		{"zone empty", "TZ= 0 0 * * *", `""` + noZone},
		{"zone of the machine", "TZ=Local 0 0 * * *", `"Local"` + noZone},
		{"zone outside the database", "TZ=../../etc/passwd 0 0 * * *", `"../../etc/passwd"` + noZone},
		{"interval below a minute", "@every 59s", `interval "59s"` + noInterval},
		{"interval of no whole minutes", "@every 90s", `interval "90s"` + noInterval},
		{"interval over a year", "@every 8761h", `interval "8761h"` + noInterval},
		{"interval negative", "@every -5m", `interval "-5m"` + noInterval},
		{"interval without unit", "@every 5", `interval "5"` + noInterval},
		{"interval missing", "@every", `"@every"` + noShortcut},
		{"reboot", "@reboot", `"@reboot"` + noShortcut},
		{"name unknown", "@noon", `"@noon"` + noShortcut},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := cron.Parse(test.text)
			if posthaste.ErrorCode(err) != posthaste.CodeInvalid {
				t.Fatalf("error %v, want CodeInvalid", err)
			}
			if _, reason, _ := strings.Cut(err.Error(), " is not a cron expression: "); reason != test.want {
				t.Errorf("got  %s\nwant %s", reason, test.want)
			}
		})
	}
}

func TestParseSentence(t *testing.T) {
	_, err := cron.Parse("99 * * * *")
	want := `"99 * * * *" is not a cron expression: minute "99" is not a number from 0 to 59`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestParseLimits(t *testing.T) {
	longest := "0 0 1 1 *" + strings.Repeat(" ", 247)
	if _, err := cron.Parse(longest); err != nil {
		t.Errorf("%d bytes: %v", len(longest), err)
	}
	_, err := cron.Parse(longest + " ")
	want := `"0 0 1 1 *` + strings.Repeat(" ", 31) + `"… is 257 bytes long, a cron expression has at most 256`
	if posthaste.ErrorCode(err) != posthaste.CodeInvalid || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	for _, text := range []string{"@every 1m", "@every 8760h", "*/9999 * * * *", "0 0 29 2 *", "0 0 30 2 1"} {
		if _, err := cron.Parse(text); err != nil {
			t.Error(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"* * * * *", "*/15 9-17 1,15 JAN-jun mon-FRI", "TZ=Europe/Berlin 30 2 * * 7", "CRON_TZ=Australia/Lord_Howe 0 0 29 2 ?",
		"@hourly", "@every 90m", "TZ=Pacific/Apia @every 24h", "0 0 30 2 *", "1-2-3/4/5,, * * * *", "TZ= \xff",
	} {
		f.Add(text, int64(1_700_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, seconds int64) {
		schedule, err := cron.Parse(text)
		if err != nil {
			if posthaste.ErrorCode(err) != posthaste.CodeInvalid {
				t.Fatalf("error %v has not CodeInvalid", err)
			}
			return
		}
		const years = 200 * 365 * 24 * 3600 // around 1970, so some zones are still on local mean time
		after := time.Unix(seconds%(years/2), seconds&0xffff)
		for range 5 {
			tick := schedule.Next(after)
			if tick.IsZero() {
				return
			}
			if !tick.After(after) || tick.Second() != 0 || tick.Nanosecond() != 0 {
				t.Fatalf("%q ticks at %v after %v", text, tick, after)
			}
			after = tick
		}
	})
}
