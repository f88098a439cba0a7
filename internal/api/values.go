package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/backoff"
)

// parseLabels parses a comma-separated list, without blanks, empty labels and repetitions
// (contract, U-81).
func parseLabels(given control) ([]string, error) {
	var labels []string
	for label := range strings.SplitSeq(given.text(), ",") {
		label = strings.TrimSpace(label)
		switch {
		case label == "" || slices.Contains(labels, label):
			continue
		case len(label) > posthaste.MaxLabelLen:
			return nil, posthaste.Invalidf("%s has the label %.40q…, a label has at most %d bytes",
				given.name, label, posthaste.MaxLabelLen)
		case len(labels) == posthaste.MaxLabels:
			return nil, posthaste.Invalidf("%s has more than the %d labels that a message can have", given.name, posthaste.MaxLabels)
		}
		labels = append(labels, label)
	}
	return labels, nil
}

// parseRedaction parses a comma-separated list of body, header (or headers) and header[Name].
func parseRedaction(given control) (posthaste.Redaction, error) {
	var r posthaste.Redaction
	for field := range strings.SplitSeq(given.text(), ",") {
		field = strings.TrimSpace(field)
		what, name, single := cutBrackets(field)
		what = strings.ToLower(what)
		isHeader := what == "header" || what == "headers"
		switch {
		case field == "":
		case what == "body" && !single:
			r.Body = true
		case isHeader && !single:
			r.AllHeaders = true
		case isHeader && posthaste.IsHeaderName(name):
			r.Headers = append(r.Headers, http.CanonicalHeaderKey(name))
		default:
			return posthaste.Redaction{}, posthaste.Invalidf("%s %.100q cannot be redacted, give body, header or header[Name]",
				given.name, field)
		}
	}
	return r, nil
}

// cutBrackets splits "header[Name]"; ok is false without brackets.
func cutBrackets(text string) (before, within string, ok bool) {
	before, rest, ok := strings.Cut(text, "[")
	if !ok {
		return text, "", false
	}
	within, closed := strings.CutSuffix(rest, "]")
	if !closed {
		return text, "", false
	}
	return strings.TrimSpace(before), strings.TrimSpace(within), true
}

// maxFlowPeriod limits the window of a rate.
const maxFlowPeriod = 7 * 24 * time.Hour

// parseFlowLimit parses parallelism=<n>, rate=<n> and period=<duration>, in any order.
func parseFlowLimit(given control) (posthaste.FlowLimit, error) {
	var limit posthaste.FlowLimit
	for part := range strings.SplitSeq(given.text(), ",") {
		name, value, _ := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !setFlowLimit(&limit, name, value) {
			return posthaste.FlowLimit{}, given.invalid("a list such as parallelism=2, rate=10, period=1m, " +
				"each given once, with numbers of at least 1 and a period of whole seconds up to 7d")
		}
	}
	return limit, nil
}

// setFlowLimit sets a part of a limit once.
func setFlowLimit(limit *posthaste.FlowLimit, name, value string) bool {
	switch name {
	case "parallelism":
		return setCount(&limit.Parallelism, value)
	case "rate":
		return setCount(&limit.Rate, value)
	case "period":
		period, err := backoff.ParseDuration(value)
		if err != nil || limit.Period != 0 || period%time.Second != 0 || period < time.Second || period > maxFlowPeriod {
			return false
		}
		limit.Period = period
		return true
	default:
		return false
	}
}

func setCount(count *int, value string) bool {
	n, ok := parseCount(value)
	if !ok || n < 1 || *count != 0 {
		return false
	}
	*count = n
	return true
}

const maxCount = 1<<31 - 1

// parseCount parses digits, up to maxCount.
func parseCount(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil
}
