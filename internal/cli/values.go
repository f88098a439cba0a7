package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"posthaste/internal/dispatch"
)

// byteSize is a setting in bytes, written as a whole number with a unit: 1MiB.
type byteSize int64

// byteUnits are the units of a byteSize, the longer suffix before the shorter
// one it ends with.
var byteUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
	{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
	{"B", 1},
}

// UnmarshalText reads a size such as 512KiB, 1MiB or 4GB; a number without a
// unit is bytes.
func (s *byteSize) UnmarshalText(text []byte) error {
	digits, factor := string(text), int64(1)
	for _, unit := range byteUnits {
		if rest, found := strings.CutSuffix(digits, unit.suffix); found {
			digits, factor = rest, unit.bytes
			break
		}
	}
	number, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 63)
	if err != nil || int64(number) > math.MaxInt64/factor {
		return fmt.Errorf("%q is not a size: give a whole number with B, KiB, MiB, GiB, kB, MB or GB, such as 1MiB", text)
	}
	*s = byteSize(int64(number) * factor)
	return nil
}

// String writes the size in the largest unit that divides it.
func (s byteSize) String() string {
	for _, unit := range []int{2, 1, 0} {
		if size := byteUnits[unit]; s != 0 && int64(s)%size.bytes == 0 {
			return strconv.FormatInt(int64(s)/size.bytes, 10) + size.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// span is a setting that is a length of time: Go's notation and d for days, as
// in 1m30s or 7d12h.
type span time.Duration

const day = 24 * time.Hour

// UnmarshalText reads a span that is not negative.
func (s *span) UnmarshalText(text []byte) error {
	parsed, err := parseSpan(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration: give numbers with d, h, m, s or ms, such as 7d or 1m30s", text)
	}
	*s = span(parsed)
	return nil
}

// UnmarshalYAML reads a span as UnmarshalText does, and says where a wrong one is.
func (s *span) UnmarshalYAML(node *yaml.Node) error {
	if err := s.UnmarshalText([]byte(node.Value)); err != nil {
		return fmt.Errorf("line %d: %w", node.Line, err)
	}
	return nil
}

// String writes the span as Go does.
func (s span) String() string { return time.Duration(s).String() }

var errSpan = errors.New("not a time span")

func parseSpan(text string) (time.Duration, error) {
	var total time.Duration
	days, rest, found := strings.Cut(text, "d")
	if !found {
		rest = text
	} else {
		number, err := strconv.ParseUint(days, 10, 63)
		if err != nil || number > uint64(math.MaxInt64/day) {
			return 0, errSpan
		}
		total = time.Duration(number) * day
		if rest == "" {
			return total, nil
		}
	}
	parsed, err := time.ParseDuration(rest)
	if err != nil || parsed < 0 || total > math.MaxInt64-parsed {
		return 0, errSpan
	}
	return total + parsed, nil
}

// level is how severe a log line is.
type level slog.Level

// UnmarshalText reads debug, info, warn or error.
func (l *level) UnmarshalText(text []byte) error {
	if err := (*slog.Level)(l).UnmarshalText(text); err != nil {
		return fmt.Errorf("%q is not a level: give debug, info, warn or error", text)
	}
	return nil
}

// network is a range of addresses: 10.0.0.0/8, or one address.
type network netip.Prefix

// UnmarshalText reads a range in CIDR notation or a bare address.
func (n *network) UnmarshalText(text []byte) error {
	prefix, err := dispatch.ParsePrefix(string(text))
	*n = network(prefix)
	return err
}

// prefixes returns the ranges as the standard library knows them.
func prefixes(networks []network) []netip.Prefix {
	converted := make([]netip.Prefix, len(networks))
	for i, n := range networks {
		converted[i] = netip.Prefix(n)
	}
	return converted
}

// count is a number of things.
type count int

// String writes the number.
func (c count) String() string { return strconv.Itoa(int(c)) }
