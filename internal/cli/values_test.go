package cli

import (
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestByteSize(t *testing.T) {
	tests := map[string]struct {
		text string
		want byteSize
	}{
		"bare number":    {"1048576", 1 << 20},
		"bytes":          {"512B", 512},
		"binary units":   {"512KiB", 512 << 10},
		"mebibytes":      {"1MiB", 1 << 20},
		"gibibytes":      {"2GiB", 2 << 30},
		"decimal kilo":   {"5kB", 5_000},
		"decimal mega":   {"5MB", 5_000_000},
		"decimal giga":   {"5GB", 5_000_000_000},
		"space":          {"1 MiB", 1 << 20},
		"zero":           {"0", 0},
		"largest number": {"9223372036854775807", math.MaxInt64},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got byteSize
			if err := got.UnmarshalText([]byte(test.text)); err != nil || got != test.want {
				t.Errorf("%q = %d, %v; want %d", test.text, got, err, test.want)
			}
		})
	}
	for _, text := range []string{"", "MiB", "-1MiB", "1.5MiB", "1TiB", "1mib", "9223372036854775808", "9007199254740992KiB", "one"} {
		t.Run("refuse "+text, func(t *testing.T) {
			var got byteSize
			if err := got.UnmarshalText([]byte(text)); err == nil {
				t.Errorf("%q was read as %d bytes", text, got)
			}
		})
	}
}

func TestByteSizeIsWrittenInItsLargestUnit(t *testing.T) {
	for size, want := range map[byteSize]string{0: "0B", 1: "1B", 1 << 10: "1KiB", 100 << 20: "100MiB", 1 << 40: "1024GiB", 1<<20 + 1: "1048577B"} {
		if got := size.String(); got != want {
			t.Errorf("%d bytes are written %s, want %s", int64(size), got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	tests := map[string]struct {
		text string
		want time.Duration
	}{
		"Go's notation":    {"1m30s", 90 * time.Second},
		"milliseconds":     {"250ms", 250 * time.Millisecond},
		"days":             {"7d", 7 * day},
		"days and hours":   {"1d12h", 36 * time.Hour},
		"zero":             {"0s", 0},
		"the longest days": {"106751d", 106751 * day},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got span
			if err := got.UnmarshalText([]byte(test.text)); err != nil || time.Duration(got) != test.want {
				t.Errorf("%q = %s, %v; want %s", test.text, got, err, test.want)
			}
		})
	}
	for _, text := range []string{"", "5", "d", "-1s", "1d-1h", "-1d", "1.5d", "106752d", "106751d24h", "1h1d", "soon"} {
		t.Run("refuse "+text, func(t *testing.T) {
			var got span
			if err := got.UnmarshalText([]byte(text)); err == nil {
				t.Errorf("%q was read as %s", text, got)
			}
		})
	}
}

func TestNetwork(t *testing.T) {
	for text, want := range map[string]string{"10.1.2.3/8": "10.0.0.0/8", "127.0.0.1": "127.0.0.1/32", "::1": "::1/128", "fd00::/8": "fd00::/8"} {
		var got network
		if err := got.UnmarshalText([]byte(text)); err != nil || netip.Prefix(got).String() != want {
			t.Errorf("%q = %s, %v; want %s", text, netip.Prefix(got), err, want)
		}
	}
	var got network
	if err := got.UnmarshalText([]byte("example.com")); err == nil || !strings.Contains(err.Error(), "example.com") {
		t.Errorf("a name was read as %s, error %v", netip.Prefix(got), err)
	}
}

func FuzzByteSize(f *testing.F) {
	for _, seed := range []string{"1MiB", "0", "9223372036854775807B", "kB"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var read, again byteSize
		if read.UnmarshalText([]byte(text)) != nil {
			return
		}
		if read < 0 {
			t.Fatalf("%q was read as %d bytes", text, read)
		}
		if err := again.UnmarshalText([]byte(read.String())); err != nil || again != read {
			t.Errorf("%q was read as %s, which is read as %s, %v", text, read, again, err)
		}
	})
}

func FuzzSpan(f *testing.F) {
	for _, seed := range []string{"1d12h", "106751d23h", "1m30s", "d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var read, again span
		if read.UnmarshalText([]byte(text)) != nil {
			return
		}
		if read < 0 {
			t.Fatalf("%q was read as %s", text, read)
		}
		if err := again.UnmarshalText([]byte(read.String())); err != nil || again != read {
			t.Errorf("%q was read as %s, which is read as %s, %v", text, read, again, err)
		}
	})
}
