package backoff_test

import (
	"strings"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/backoff"
)

// Contract, messages 1.2 and U-3.
func TestParseDuration(t *testing.T) {
	tests := []struct {
		text string
		want time.Duration
	}{
		{"50s", 50 * time.Second},
		{"3m", 3 * time.Minute},
		{"2h", 2 * time.Hour},
		{"7d", 7 * 24 * time.Hour},
		{"1h30m3s", 5403 * time.Second},
		{"1d10h30m", 34*time.Hour + 30*time.Minute},
		{"30m1h", 90 * time.Minute},
		{"1s1s", 2 * time.Second},
		{"1.5s", 1500 * time.Millisecond},
		{"0.1s", 100 * time.Millisecond},
		{"1.1s", 1100 * time.Millisecond},
		{".5h", 30 * time.Minute},
		{"30", 30 * time.Second},
		{"1.5", 1500 * time.Millisecond},
		{"0", 0},
		{"0s", 0},
		{"365d", 365 * 24 * time.Hour},
		{"106751d", 106751 * 24 * time.Hour},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			got, err := backoff.ParseDuration(test.text)
			if err != nil || got != test.want {
				t.Errorf("ParseDuration(%q) = %v, %v; want %v", test.text, got, err, test.want)
			}
		})
	}
}

func TestParseDurationErrors(t *testing.T) {
	tests := []struct {
		name string
		text string
	}{
		{"empty", ""},
		{"blank", " "},
		{"unit alone", "s"},
		{"negative", "-5s"},
		{"negative seconds", "-5"},
		{"explicit plus", "+5s"},
		{"last unit missing", "1h30"},
		{"unknown unit", "5w"},
		{"unit of two letters", "5ms"},
		{"capital unit", "5S"},
		{"blank between", "1h 30m"},
		{"exponent", "1e3s"},
		{"two points", "1.2.3s"},
		{"point alone", ".s"},
		{"infinity", "Inf"},
		{"overflow of days", "106752d"},
		{"overflow of seconds", "9223372037"},
		{"overflow of the sum", "106751d106751d"},
		{"overflow of the number", strings.Repeat("9", 400) + "s"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := backoff.ParseDuration(test.text)
			if posthaste.ErrorCode(err) != posthaste.CodeInvalid {
				t.Errorf("ParseDuration(%q) = %v, %v; want CodeInvalid", test.text, got, err)
			}
		})
	}
}

func TestParseDurationSentence(t *testing.T) {
	_, err := backoff.ParseDuration("soon" + strings.Repeat("n", 200))
	want := `"soon` + strings.Repeat("n", 96) + `" is not a duration: give numbers with the units s, m, h or d, ` +
		`such as 90s or 1d10h30m, or a number of seconds`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// FuzzParseDuration compares with the standard library where the grammars agree.
func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"50s", "1d10h30m", "1.5", "1h30m3s", "1h30", "-1s", "9223372036s", ".s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := backoff.ParseDuration(text)
		if got < 0 {
			t.Fatalf("ParseDuration(%q) = %v", text, got)
		}
		if err != nil || strings.Contains(text, "d") || strings.Trim(text, ".0123456789") == "" {
			return
		}
		if got > 100*365*24*time.Hour {
			return // near overflow the two may round to different sides of it
		}
		want, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("ParseDuration(%q) = %v, the standard library says %v", text, got, err)
		}
		// A float64 carries 53 bits: allow for the ones beyond, and for the
		// fraction of each part, which we round and the library cuts.
		if slack := want>>50 + time.Duration(len(text)); (got - want).Abs() > slack {
			t.Fatalf("ParseDuration(%q) = %v, the standard library says %v", text, got, want)
		}
	})
}

func TestFormatDuration(t *testing.T) {
	tests := []struct {
		duration time.Duration
		want     string
	}{
		{1500 * time.Millisecond, "1.5s"},
		{10 * time.Second, "10s"},
		{90 * time.Second, "1m30s"},
		{10 * time.Minute, "10m"},
		{2 * time.Hour, "2h"},
		{2*time.Hour + time.Minute, "2h1m"},
		{2*time.Hour + time.Second, "2h0m1s"},
		{24 * time.Hour, "1d"},
		{36 * time.Hour, "1d12h"},
		{24*time.Hour + 10*time.Second, "1d10s"},
		{366 * 24 * time.Hour, "366d"},
		{0, "0s"},
	}
	for _, test := range tests {
		if got := backoff.FormatDuration(test.duration); got != test.want {
			t.Errorf("FormatDuration(%d) = %q, want %q", test.duration, got, test.want)
		}
	}
}
