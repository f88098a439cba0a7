package wire

import (
	"net/url"
	"strconv"

	"posthaste"
	"posthaste/internal/store"
)

// deadLetterFilters are the filters of calls on the DLQ.
var deadLetterFilters = []string{
	"dlqIds", "messageId", "url", "topicName", "urlGroup", "scheduleId", "queueName", "responseStatus", "label",
	"callerIp", "callerIP", "flowControlKey", "fromDate", "toDate",
}

// DeadLetters reads the parameters of a list of dead letters (contract, messages 2.9), except
// count and trimBody. Default order: newest first.
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

// Sweep reads the parameters of a call that retries or deletes matching dead letters page by
// page. Default order: oldest first, in which they failed.
//
// begun is true if the cursor continues a sweep; High then is where the sweep ends, so that later
// failures are not included. Otherwise the caller must lower High to the newest dead letter.
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

// readDeadLetterFilter reads filters and dates, and returns the range for the cursor.
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
	if f.IDs, err = p.deadLetterIDs(); err != nil {
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

// noDeadLetter is the id of no dead letter.
const noDeadLetter posthaste.DeadLetterID = 0

// deadLetterIDs reads dlqIds. A text that is no id matches no dead letter.
func (p parameters) deadLetterIDs() (ids []posthaste.DeadLetterID, err error) {
	texts, err := p.list(parts, "dlqIds")
	for _, text := range texts {
		if id, ok := posthaste.ParseDeadLetterID(text); ok {
			ids = append(ids, id)
		}
	}
	if len(texts) > 0 && len(ids) == 0 {
		ids = []posthaste.DeadLetterID{noDeadLetter}
	}
	return ids, err
}

// ofWorkflows reports whether source asks for failed workflow runs.
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

// checkOfMessages rejects source=workflow (contract, decision 13).
func (p parameters) checkOfMessages() error {
	workflows, err := p.ofWorkflows()
	if workflows {
		return posthaste.Invalidf(`source "workflow" cannot be given here: failed runs are deleted, restarted and resumed at /v2/workflows/dlq`)
	}
	return err
}

// statuses reads responseStatus; accepted completes the error.
func (p parameters) statuses(accepted string) (statuses []int, err error) {
	texts, err := p.list(parts, "responseStatus")
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		const highest = 999
		status, err := strconv.ParseUint(text, 10, 16)
		if err != nil || status > highest {
			return nil, invalid("responseStatus", text, accepted)
		}
		statuses = append(statuses, int(status))
	}
	return statuses, nil
}
