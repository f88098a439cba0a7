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

// parseLabels reads a list with commas. Blanks, empty labels and repetitions
// are left out (contract, U-81).
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

// parseRedaction reads a list with commas of the parts to redact: body, header
// for all headers, header[Name] for one. headers is the same as header.
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

// cutBrackets takes "header[Name]" apart; ok is false for a text without brackets.
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

// maxFlowPeriod is the longest window of a rate.
const maxFlowPeriod = 7 * 24 * time.Hour

// parseFlowLimit reads what a flow-control key allows: one or more of
// parallelism=<n>, rate=<n> and period=<duration>, in any order.
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

// setFlowLimit sets one part of a limit that is not set yet.
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

// maxCount is the largest number of things that can be asked for.
const maxCount = 1<<31 - 1

// parseCount reads a whole number from 0 to maxCount: digits without a sign.
func parseCount(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil
}
