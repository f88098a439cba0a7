package wire

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"posthaste"
	"posthaste/internal/weburl"
)

// call is a call that selects by filters, or a set of them.
type call uint8

const (
	log         call = 1 << iota // of messages
	runLog                       // of runs
	live                         // cancels messages
	liveRuns                     // cancels runs
	deadLetters                  // the DLQ of messages
	failedRuns                   // the DLQ of runs
	stats                        // counts the log of messages
	every       = log | runLog | live | liveRuns | deadLetters | failedRuns
)

// filter is a parameter by which calls select. One of the two functions reads it and its synonym;
// if there is none, the call does.
type filter struct {
	name    string
	calls   call
	synonym string
	texts   func(f *posthaste.Filter) *[]string // its values are free texts
	stored  func(string) string                 // the stored spelling of such a text, which is searched for too
	read    func(p parameters, of call, f *posthaste.Filter) error
}

// filters are all filters, in the order in which errors list them.
var filters = []filter{
	{name: "dlqIds", calls: deadLetters | failedRuns, read: parameters.deadLetterIDs},
	{name: "workflowRuns", calls: runLog},
	{name: "workflowRunIds", calls: liveRuns},
	{name: "workflowRunId", calls: runLog | failedRuns, texts: func(f *posthaste.Filter) *[]string { return &f.RunIDPrefixes }},
	{name: "messageId", calls: log | runLog | live | deadLetters, read: parameters.messageIDs},
	{name: "messageIds", calls: log | runLog | live},
	{name: "state", calls: log | runLog | stats, read: parameters.states},
	{name: "workflowUrl", calls: runLog | liveRuns | failedRuns, synonym: "url", texts: func(f *posthaste.Filter) *[]string { return &f.URLs }, stored: asciiURL},
	{name: "workflowUrlExactMatch", calls: liveRuns},
	{name: "url", calls: log | live | deadLetters | failedRuns},
	{name: "topicName", calls: log | live | deadLetters, synonym: "urlGroup", texts: func(f *posthaste.Filter) *[]string { return &f.URLGroups }},
	{name: "urlGroup", calls: log | live | deadLetters},
	{name: "scheduleId", calls: log | live | deadLetters, texts: func(f *posthaste.Filter) *[]string { return &f.ScheduleIDs }},
	{name: "queueName", calls: log | live | deadLetters | stats, texts: func(f *posthaste.Filter) *[]string { return &f.Queues }},
	{name: "workflowCreatedAt", calls: runLog | failedRuns, read: parameters.createdAts},
	{name: "responseStatus", calls: log | deadLetters | failedRuns, read: parameters.statuses},
	{name: "method", calls: log, read: parameters.methods},
	{name: "label", calls: every | stats, texts: func(f *posthaste.Filter) *[]string { return &f.Labels }},
	{name: "failureFunctionState", calls: failedRuns, read: parameters.callbackStates},
	{name: "failureCallbackState", calls: failedRuns},
	{name: "host", calls: log | runLog | live | liveRuns | stats, texts: func(f *posthaste.Filter) *[]string { return &f.Hosts }, stored: weburl.Host},
	{name: "path", calls: log | runLog | live | liveRuns | stats, texts: func(f *posthaste.Filter) *[]string { return &f.Paths }, stored: weburl.Escape},
	{name: "callerIp", calls: every, synonym: "callerIP", texts: func(f *posthaste.Filter) *[]string { return &f.CallerIPs }},
	{name: "callerIP", calls: every},
	{name: "flowControlKey", calls: every, texts: func(f *posthaste.Filter) *[]string { return &f.FlowKeys }},
	{name: "fromDate", calls: every | stats, read: parameters.dates},
	{name: "toDate", calls: every | stats},
}

// names returns the names of a call's filters.
func (c call) names() (names []string) {
	for _, filter := range filters {
		if filter.calls&c != 0 {
			names = append(names, filter.name)
		}
	}
	return names
}

// maxBytes limits the texts of all filters, which a bulk action keeps. It is twice what a body may
// have, because a value with commas is searched for whole and split.
const maxBytes = 2 << 20

// filter reads the filters of a call. checkNames rejects those that it does not have.
func (p parameters) filter(of call) (f posthaste.Filter, err error) {
	bytes := 0
	for _, filter := range filters {
		switch {
		case filter.read != nil:
			err = filter.read(p, of, &f)
		case filter.texts != nil:
			texts := filter.texts(&f)
			*texts, err = p.list(filter.spellings, filter.name, filter.synonym)
			for _, text := range *texts {
				bytes += len(text)
			}
		}
		if err != nil {
			return f, err
		}
	}
	if bytes > maxBytes {
		return f, posthaste.Invalidf("the filters have %d bytes with the spellings that are searched for, at most %d are accepted", bytes, maxBytes)
	}
	return f, nil
}

// spellings returns what is searched for if a value is given: the value whole and split, and how a
// store spells these, such as URLs in ASCII.
func (f *filter) spellings(value string) []string {
	values := wholeAndParts(value)
	if f.stored != nil {
		for _, value := range values {
			values = append(values, f.stored(value))
		}
	}
	return values
}

func asciiURL(text string) string {
	ascii, err := weburl.ASCII("url", text)
	if err != nil {
		return text
	}
	return ascii
}

// noMessage is the id of no message. Filters without a valid id select nothing, not everything.
var noMessage posthaste.MessageID

// messageIDs reads messageId and messageIds; given both, an id must be in both. A text that is no
// id matches no message.
func (p parameters) messageIDs(_ call, f *posthaste.Filter) error {
	for _, name := range []string{"messageId", "messageIds"} {
		texts, err := p.list(parts, name)
		if err != nil {
			return err
		}
		if len(texts) == 0 {
			continue
		}
		var named []posthaste.MessageID
		for _, text := range texts {
			id, err := posthaste.ParseMessageID(text)
			if err == nil && (f.MessageIDs == nil || slices.Contains(f.MessageIDs, id)) {
				named = append(named, id)
			}
		}
		if f.MessageIDs = named; len(named) == 0 {
			f.MessageIDs = []posthaste.MessageID{noMessage}
		}
	}
	return nil
}

// noDeadLetter is the id of no dead letter.
const noDeadLetter posthaste.DeadLetterID = 0

// deadLetterIDs reads dlqIds. A text that is no id matches no dead letter.
func (p parameters) deadLetterIDs(_ call, f *posthaste.Filter) error {
	texts, err := p.list(parts, "dlqIds")
	for _, text := range texts {
		if id, ok := posthaste.ParseDeadLetterID(text); ok {
			f.DeadLetterIDs = append(f.DeadLetterIDs, id)
		}
	}
	if len(texts) > 0 && len(f.DeadLetterIDs) == 0 {
		f.DeadLetterIDs = []posthaste.DeadLetterID{noDeadLetter}
	}
	return err
}

// inProgress is a value of the state filter that stands for inProgressStates.
const inProgress = "IN_PROGRESS"

var inProgressStates = []posthaste.State{posthaste.StateActive, posthaste.StateRetry, posthaste.StateError}

// states reads the states of messages. RunLog reads those of runs and steps.
func (p parameters) states(of call, f *posthaste.Filter) error {
	if of == runLog {
		return nil
	}
	texts, err := p.list(parts, "state")
	for _, text := range texts {
		if strings.EqualFold(text, inProgress) {
			f.States = append(f.States, inProgressStates...)
			continue
		}
		state, ok := posthaste.ParseState(text)
		if !ok {
			return invalid("state", text, "one of "+names(posthaste.States)+", "+inProgress)
		}
		f.States = append(f.States, state)
	}
	return err
}

// names joins states for an error.
func names[S ~string](states []S) string {
	texts := make([]string, len(states))
	for i, state := range states {
		texts[i] = string(state)
	}
	return strings.Join(texts, ", ")
}

// statuses reads responseStatus.
func (p parameters) statuses(of call, f *posthaste.Filter) error {
	const highest = 999
	accepted := "an HTTP status, or 0 for no response"
	if of == failedRuns {
		accepted = "an HTTP status, 503 for no answer or 504 for a timeout"
	}
	if of == log {
		accepted = "an HTTP status, a class such as 5xx, or 0 for no response"
	}
	texts, err := p.list(parts, "responseStatus")
	for _, text := range texts {
		if class, ok := strings.CutSuffix(strings.ToLower(text), "xx"); ok && of == log && len(class) == 1 && class >= "1" && class <= "9" {
			for n := range 100 {
				f.Statuses = append(f.Statuses, int(class[0]-'0')*100+n)
			}
			continue
		}
		status, err := strconv.ParseUint(text, 10, 16)
		if err != nil || status > highest {
			return invalid("responseStatus", text, accepted)
		}
		f.Statuses = append(f.Statuses, int(status))
	}
	if of == log { // a class and one of it
		slices.Sort(f.Statuses)
		f.Statuses = slices.Compact(f.Statuses)
	}
	return err
}

// methods reads method.
func (p parameters) methods(_ call, f *posthaste.Filter) error {
	texts, err := p.list(parts, "method")
	for _, text := range texts {
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
			return invalid("method", text, "an HTTP method, such as GET or POST")
		}
		f.Methods = append(f.Methods, strings.ToUpper(text))
	}
	return err
}

// createdAts reads workflowCreatedAt.
func (p parameters) createdAts(_ call, f *posthaste.Filter) error {
	texts, err := p.list(parts, "workflowCreatedAt")
	for _, text := range texts {
		at, ok := parseMillis(text)
		if !ok {
			return invalid("workflowCreatedAt", text, "a Unix time in milliseconds")
		}
		f.CreatedAts = append(f.CreatedAts, at)
	}
	return err
}

// callbackStates reads both names of the state of a failure callback.
func (p parameters) callbackStates(_ call, f *posthaste.Filter) error {
	for _, name := range []string{"failureFunctionState", "failureCallbackState"} {
		texts, err := p.list(parts, name)
		if err != nil {
			return err
		}
		for _, text := range texts {
			state := posthaste.CallbackState(strings.ToUpper(text))
			if !slices.Contains(posthaste.CallbackStates, state) {
				return invalid(name, text, "CALLBACK_INPROGRESS, CALLBACK_SUCCESS, CALLBACK_FAIL or CALLBACK_CANCELED")
			}
			f.CallbackStates = append(f.CallbackStates, state)
		}
	}
	return nil
}

// dates reads fromDate and toDate.
func (p parameters) dates(_ call, f *posthaste.Filter) (err error) {
	if f.From, err = p.date("fromDate", posthaste.FirstPosition); err != nil {
		return err
	}
	f.Until, err = p.date("toDate", posthaste.LastPosition)
	return err
}

// Selected is what a call selects.
type Selected struct {
	Filter posthaste.Filter // its dates are in the range
	Range
	Limit     int
	BodyLimit int // see BodyLimit

	// Begun means that an earlier call has fixed where the sweep ends, which is High, so that later
	// failures are not included. Otherwise the caller must lower it to what there is.
	Begun bool
}

// selected reads all but the cursor; others are the names of further parameters.
func (p parameters) selected(of call, count Count, oldestFirst bool, others ...string) (s Selected, err error) {
	if err = p.checkNames(of, append([]string{"count", "cursor", "order"}, others...)...); err != nil {
		return s, err
	}
	if s.Filter, err = p.filter(of); err != nil {
		return s, err
	}
	if s.Limit, err = count.Read(url.Values(p)); err != nil {
		return s, err
	}
	if s.BodyLimit, err = BodyLimit(url.Values(p)); err != nil {
		return s, err
	}
	s.Filter, s.Low, s.High = s.Filter.Dated()
	s.OldestFirst, err = p.order(oldestFirst)
	return s, err
}
