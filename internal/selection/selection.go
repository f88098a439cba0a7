// Package selection owns how a request says what it means: the parameters that
// filter events, dead letters and messages, how their values are written, counts,
// orders, date ranges, and the cursors by which a reader goes on.
//
// Each function translates parameters into a query of package store. A bad value
// is an Error with CodeInvalid that names the parameter, the value and what is
// accepted. A parameter without a value counts as not given.
package selection

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"posthaste"
	"posthaste/internal/store"
)

// Count says how many things a page may have.
type Count struct {
	Default int // when the request names no count; 0: no bound
	Most    int // a larger count is lowered to this one; 0: no bound
}

// read returns the count a request asks for. One above the most is lowered to it:
// SDKs ask for more than some lists give.
func (c Count) read(p parameters) (int, error) {
	text, err := p.one("count")
	if text == "" || err != nil {
		return c.Default, err
	}
	count, err := strconv.ParseUint(text, 10, 31)
	if errors.Is(err, strconv.ErrRange) {
		count, err = 1<<31-1, nil
	}
	if err != nil || count == 0 {
		return 0, invalid("count", text, "a whole number of at least 1")
	}
	if c.Most > 0 {
		count = min(count, uint64(c.Most))
	}
	return int(count), nil
}

// The values of the parameter order.
const (
	latestFirst   = "latestFirst"
	earliestFirst = "earliestFirst"
)

// readOrder reports whether the oldest come first; by default they do not.
func readOrder(p parameters) (oldestFirst bool, err error) {
	text, err := p.one("order")
	if err != nil {
		return false, err
	}
	switch text {
	case "", latestFirst:
		return false, nil
	case earliestFirst:
		return true, nil
	default:
		return false, invalid("order", text, earliestFirst+" or "+latestFirst)
	}
}

// Events translates the parameters of a log query (contract 4.1, messages 2.10).
// Unknown ones are ignored.
func Events(params url.Values, count Count) (query store.EventQuery, err error) {
	p := parameters(params)
	query.High = posthaste.MaxPosition
	if query.Limit, err = count.read(p); err != nil {
		return query, err
	}
	if query.OldestFirst, err = readOrder(p); err != nil {
		return query, err
	}
	within := rangeOf{&query.Low, &query.High, query.OldestFirst}
	if err := within.readDates(p); err != nil {
		return query, err
	}
	if err := within.readCursor(p); err != nil {
		return query, err
	}
	if err := readStates(&query.Filter, p); err != nil {
		return query, err
	}
	if query.Filter.MessageIDs, err = readMessageIDs(p); err != nil {
		return query, err
	}
	if err := readTexts(p, messageTexts(&query.Filter)); err != nil {
		return query, err
	}
	return query, nil
}

// Live translates the filter of a bulk cancellation (contract, messages 2.5):
// everything but the count. Unknown parameters are an error: a typo must not
// widen what is cancelled.
func Live(params url.Values) (query store.LiveQuery, err error) {
	p := parameters(params)
	if err := p.refuseUnknown(liveParameters); err != nil {
		return query, err
	}
	from, _, err := p.date("fromDate")
	if err != nil {
		return query, err
	}
	to, _, err := p.date("toDate")
	if err != nil {
		return query, err
	}
	query.CreatedFrom, query.CreatedUntil = from, to
	if query.Filter.MessageIDs, err = readMessageIDs(p); err != nil {
		return query, err
	}
	return query, readTexts(p, messageTexts(&query.Filter))
}

var liveParameters = []string{
	"messageId", "messageIds", "url", "topicName", "scheduleId", "queueName", "label", "host", "path",
	"callerIp", "callerIP", "flowControlKey", "fromDate", "toDate", "count",
}

// DeadLetters translates the filter of a DLQ call (contract, messages 2.9), with
// order, dates and cursor, but without the count. Unknown parameters are an error.
func DeadLetters(params url.Values) (query store.DeadLetterQuery, err error) {
	p := parameters(params)
	if err := p.refuseUnknown(deadLetterParameters); err != nil {
		return query, err
	}
	query.High = posthaste.MaxPosition
	if query.OldestFirst, err = readOrder(p); err != nil {
		return query, err
	}
	within := rangeOf{&query.Low, &query.High, query.OldestFirst}
	if err := within.readDates(p); err != nil {
		return query, err
	}
	if err := within.readCursor(p); err != nil {
		return query, err
	}
	f := &query.Filter
	if f.IDs, err = readDeadLetterIDs(p); err != nil {
		return query, err
	}
	if f.MessageIDs, err = readMessageIDs(p); err != nil {
		return query, err
	}
	if f.Statuses, err = readStatuses(p); err != nil {
		return query, err
	}
	return query, readTexts(p, []text{
		{&f.URLs, []string{"url"}},
		{&f.URLGroups, []string{"topicName"}},
		{&f.ScheduleIDs, []string{"scheduleId"}},
		{&f.Queues, []string{"queueName"}},
		{&f.Labels, []string{"label"}},
		{&f.CallerIPs, []string{"callerIp", "callerIP"}},
		{&f.FlowKeys, []string{"flowControlKey"}},
	})
}

var deadLetterParameters = []string{
	"dlqIds", "messageId", "url", "topicName", "scheduleId", "queueName", "responseStatus", "label",
	"callerIp", "callerIP", "flowControlKey", "fromDate", "toDate", "count", "cursor", "order",
}

// refuseUnknown returns an error that names a parameter that is not known. Those
// that some clients add to every request are known everywhere.
func (p parameters) refuseUnknown(known []string) error {
	for name := range p {
		if !slices.Contains(known, name) && name != "api" && name != "source" {
			return posthaste.Invalidf("parameter %.100q is unknown: %s are accepted", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// text is a filter whose values are free texts. callerIP is an older name of
// callerIp.
type text struct {
	values *[]string
	names  []string
}

func messageTexts(f *store.EventFilter) []text {
	return []text{
		{&f.URLs, []string{"url"}},
		{&f.URLGroups, []string{"topicName"}},
		{&f.ScheduleIDs, []string{"scheduleId"}},
		{&f.Queues, []string{"queueName"}},
		{&f.Labels, []string{"label"}},
		{&f.Hosts, []string{"host"}},
		{&f.Paths, []string{"path"}},
		{&f.CallerIPs, []string{"callerIp", "callerIP"}},
		{&f.FlowKeys, []string{"flowControlKey"}},
	}
}

func readTexts(p parameters, texts []text) error {
	for _, text := range texts {
		values, err := p.list(wholeAndParts, text.names...)
		if err != nil {
			return err
		}
		*text.values = values
	}
	return nil
}
