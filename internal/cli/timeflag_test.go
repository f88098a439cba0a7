package cli

import (
	"strings"
	"testing"
	"time"
)

func TestMoment(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000).UTC()
	tests := map[string]struct {
		text string
		want time.Time
	}{
		"milliseconds":           {"1700000000123", now.Add(123 * time.Millisecond)},
		"the least milliseconds": {"1000000000000", time.UnixMilli(1_000_000_000_000)},
		"RFC 3339":               {"2023-11-14T22:13:20Z", now},
		"as tables show it":      {"2023-11-14 22:13:20.123+00:00", now.Add(123 * time.Millisecond)},
		"with an offset":         {"2023-11-15 00:13:20.000+02:00", now},
		"a local time":           {"2023-11-14 22:13:20", now},
		"a local minute":         {"2023-11-14T22:13", now.Add(-20 * time.Second)},
		"a local day":            {"2023-11-14", now.Add(-22*time.Hour - 13*time.Minute - 20*time.Second)},
		"how long ago":           {"30m", now.Add(-30 * time.Minute)},
		"days ago":               {"2d", now.Add(-48 * time.Hour)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, err := parseTimeFlag(test.text, now); err != nil || !got.Equal(test.want) {
				t.Errorf("%q = %s, %v; want %s", test.text, got, err, test.want)
			}
		})
	}
	const tooSmall, noTime = "is too small for a Unix time in milliseconds: give one such as 1700000000000, or an age with a unit, such as 30m", "is not a time: give "
	for text, want := range map[string]string{
		"30": tooSmall, "0": tooSmall, "1700000000": tooSmall, "999999999999": tooSmall,
		"": noTime, "yesterday": noTime, "-1": noTime,
	} {
		t.Run("refuse "+text, func(t *testing.T) {
			if got, err := parseTimeFlag(text, now); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q = %s, %v; want %s", text, got, err, want)
			}
		})
	}
}
