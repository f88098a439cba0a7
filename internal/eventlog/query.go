package eventlog

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"posthaste"
	"posthaste/internal/store"
)

// The values of the parameter order.
const (
	latestFirst   = "latestFirst"
	earliestFirst = "earliestFirst"
)

// inProgress stands for the states of a message between its acceptance and its
// end, in the filter only.
const inProgress = "IN_PROGRESS"

var inProgressStates = []posthaste.State{posthaste.StateActive, posthaste.StateRetry, posthaste.StateError}

// parse translates the parameters of a query (contract 4.1, messages 2.10).
func (l *Log) parse(p parameters) (store.EventQuery, error) {
	query := store.EventQuery{High: posthaste.MaxPosition}
	for _, read := range []func(*store.EventQuery, parameters) error{
		l.readCount, readOrder, readDates, readCursor, readFilter,
	} {
		if err := read(&query, p); err != nil {
			return store.EventQuery{}, err
		}
	}
	return query, nil
}

// readCount lowers a count above the maximum to it: SDKs ask for more than some
// lists give.
func (l *Log) readCount(query *store.EventQuery, p parameters) error {
	text, err := p.one("count")
	if err != nil {
		return err
	}
	query.Limit = min(l.defaultCount, l.maxCount)
	if text == "" {
		return nil
	}
	count, err := strconv.ParseUint(text, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		count, err = uint64(l.maxCount), nil
	}
	if err != nil || count == 0 {
		return invalid("count", text, "a whole number of at least 1")
	}
	query.Limit = int(min(count, uint64(l.maxCount)))
	return nil
}

func readOrder(query *store.EventQuery, p parameters) error {
	text, err := p.one("order")
	if err != nil {
		return err
	}
	switch text {
	case "", latestFirst:
	case earliestFirst:
		query.OldestFirst = true
	default:
		return invalid("order", text, earliestFirst+" or "+latestFirst)
	}
	return nil
}

// readDates sets the range of positions, both ends included.
func readDates(query *store.EventQuery, p parameters) error {
	from, given, err := p.date("fromDate")
	if err != nil {
		return err
	}
	if given {
		query.Low = posthaste.FirstPosition(from)
	}
	to, given, err := p.date("toDate")
	if err != nil {
		return err
	}
	if given {
		query.High = posthaste.LastPosition(to)
	}
	return nil
}

func readCursor(query *store.EventQuery, p parameters) error {
	text, err := p.one("cursor")
	if text == "" || err != nil {
		return err
	}
	at, err := parseCursor(text)
	if err != nil {
		return err
	}
	continueAt(query, at)
	return nil
}

// readFilter reads the filters by value. callerIP is an older name of callerIp.
func readFilter(query *store.EventQuery, p parameters) error {
	f := &query.Filter
	for _, field := range []struct {
		values *[]string
		names  []string
	}{
		{&f.URLs, []string{"url"}},
		{&f.URLGroups, []string{"topicName"}},
		{&f.ScheduleIDs, []string{"scheduleId"}},
		{&f.Queues, []string{"queueName"}},
		{&f.Labels, []string{"label"}},
		{&f.Hosts, []string{"host"}},
		{&f.Paths, []string{"path"}},
		{&f.CallerIPs, []string{"callerIp", "callerIP"}},
		{&f.FlowKeys, []string{"flowControlKey"}},
	} {
		values, err := p.list(wholeAndParts, field.names...)
		if err != nil {
			return err
		}
		*field.values = values
	}
	if err := readStates(f, p); err != nil {
		return err
	}
	return readMessageIDs(query, p)
}

func readStates(f *store.EventFilter, p parameters) error {
	texts, err := p.list(parts, "state")
	if err != nil {
		return err
	}
	for _, text := range texts {
		states, err := parseState(text)
		if err != nil {
			return err
		}
		f.States = append(f.States, states...)
	}
	return nil
}

func parseState(text string) ([]posthaste.State, error) {
	if strings.EqualFold(text, inProgress) {
		return inProgressStates, nil
	}
	state, ok := posthaste.ParseState(text)
	if !ok {
		return nil, invalid("state", text, "one of "+stateNames())
	}
	return []posthaste.State{state}, nil
}

func stateNames() string {
	var names strings.Builder
	for _, state := range posthaste.States {
		names.WriteString(string(state) + ", ")
	}
	return names.String() + inProgress
}

// readMessageIDs reads messageId and messageIds, which are two filters: given
// together, an id has to be in both. A text that is no id is the id of no
// message, so a filter of such texts alone lets nothing pass.
func readMessageIDs(query *store.EventQuery, p parameters) error {
	for _, name := range []string{"messageId", "messageIds"} {
		texts, err := p.list(parts, name)
		if err != nil {
			return err
		}
		if len(texts) == 0 {
			continue
		}
		ids := parseMessageIDs(texts)
		if others := query.Filter.MessageIDs; len(others) > 0 {
			ids = slices.DeleteFunc(ids, func(id posthaste.MessageID) bool { return !slices.Contains(others, id) })
		}
		if len(ids) == 0 {
			selectNothing(query)
		}
		query.Filter.MessageIDs = ids
	}
	return nil
}

func parseMessageIDs(texts []string) []posthaste.MessageID {
	var ids []posthaste.MessageID
	for _, text := range texts {
		if id, err := posthaste.ParseMessageID(text); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}
