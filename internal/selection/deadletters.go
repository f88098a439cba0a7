package selection

import (
	"net/url"
	"strconv"

	"posthaste"
	"posthaste/internal/store"
)

// deadLetterFilters are the filters of the calls on the DLQ.
var deadLetterFilters = []string{
	"dlqIds", "messageId", "url", "topicName", "urlGroup", "scheduleId", "queueName", "responseStatus", "label",
	"callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
}

// DeadLetters translates the parameters of a list of dead letters (contract,
// messages 2.9), without the count and how much of a body is shown; the latest come first
// unless told otherwise. It takes no unknown parameter either, as no call on the DLQ does.
func DeadLetters(params url.Values) (query store.DeadLetterQuery, err error) {
	p := parameters(params)
	if err := p.checkNames(deadLetterFilters, "count", "cursor", "order", "source", "api", "trimBody"); err != nil {
		return query, err
	}
	if query.OldestFirst, err = p.order(false); err != nil {
		return query, err
	}
	within, err := readDeadLetterFilter(&query, p)
	if err != nil {
		return query, err
	}
	return query, within.readCursor(p)
}

// Sweep translates the parameters of a call that retries or deletes what matches
// a filter, a page at a time: as DeadLetters does, but the oldest come first
// unless told otherwise, so that they are retried in the order they failed in.
//
// begun says that the cursor is of this very sweep, and High then ends it where
// the sweep first ended: what fails again while the sweep goes on lies beyond
// that. Who begins a sweep has to lower High to the newest dead letter.
func Sweep(params url.Values) (query store.DeadLetterQuery, begun bool, err error) {
	p := parameters(params)
	if err := p.checkNames(deadLetterFilters, "count", "cursor", "order", "source", "api", "async"); err != nil {
		return query, false, err
	}
	if err := p.checkValues(deadLetterFilters); err != nil {
		return query, false, err
	}
	if query.OldestFirst, err = p.order(true); err != nil {
		return query, false, err
	}
	within, err := readDeadLetterFilter(&query, p)
	if err != nil {
		return query, false, err
	}
	begun, err = within.readSweepCursor(p)
	return query, begun, err
}

// readDeadLetterFilter reads the filters and dates, and returns the range for
// the cursor to narrow.
func readDeadLetterFilter(query *store.DeadLetterQuery, p parameters) (within rangeOf, err error) {
	if err := p.checkOfMessages(); err != nil {
		return within, err
	}
	query.High = posthaste.MaxPosition
	within = rangeOf{&query.Low, &query.High, query.OldestFirst}
	if err := within.readDates(p); err != nil {
		return within, err
	}
	f := &query.Filter
	if f.MessageIDs, err = p.messageIDs(); err != nil {
		return within, err
	}
	if f.Statuses, err = p.statuses("an HTTP status, or 0 for no response"); err != nil {
		return within, err
	}
	if err := readDeadLetterIDs(f, p); err != nil {
		return within, err
	}
	return within, p.texts([]textFilter{
		{&f.URLs, []string{"url"}},
		{&f.URLGroups, []string{"topicName", "urlGroup"}},
		{&f.ScheduleIDs, []string{"scheduleId"}},
		{&f.Queues, []string{"queueName"}},
		{&f.Labels, []string{"label"}},
		{&f.CallerIPs, []string{"callerIp", "callerIP"}},
		{&f.FlowKeys, []string{"flowControlKey"}},
	})
}

// noDeadLetter is the id of none.
const noDeadLetter posthaste.DeadLetterID = 0

// readDeadLetterIDs reads dlqIds. A text that is no id is the id of no dead letter.
func readDeadLetterIDs(f *store.DeadLetterFilter, p parameters) error {
	texts, err := p.list(parts, "dlqIds")
	if err != nil {
		return err
	}
	for _, text := range texts {
		if id, ok := posthaste.ParseDeadLetterID(text); ok {
			f.IDs = append(f.IDs, id)
		}
	}
	if len(texts) > 0 && len(f.IDs) == 0 {
		f.IDs = []posthaste.DeadLetterID{noDeadLetter}
	}
	return nil
}

// ofWorkflows reports whether the dead letters of workflow runs are meant rather
// than those of messages.
func (p parameters) ofWorkflows() (bool, error) {
	text, err := p.one("source")
	if err != nil {
		return false, err
	}
	switch text {
	case "", "message":
		return false, nil
	case "workflow":
		return true, nil
	default:
		return false, invalid("source", text, "message or workflow")
	}
}

// checkOfMessages returns an error if the dead letters of workflow runs are meant: they
// are none of those of messages (contract, decision 13).
func (p parameters) checkOfMessages() error {
	workflows, err := p.ofWorkflows()
	if workflows {
		return posthaste.Invalidf(`source "workflow" cannot be given here: failed runs are deleted, restarted and resumed at /v2/workflows/dlq`)
	}
	return err
}

// statuses reads responseStatus; accepted is what it may be.
func (p parameters) statuses(accepted string) (statuses []int, err error) {
	texts, err := p.list(parts, "responseStatus")
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		const highest = 999 // three digits
		status, err := strconv.ParseUint(text, 10, 16)
		if err != nil || status > highest {
			return nil, invalid("responseStatus", text, accepted)
		}
		statuses = append(statuses, int(status))
	}
	return statuses, nil
}
