package wire

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/weburl"
)

// textFilter is a filter of free texts, with its names.
type textFilter struct {
	values *[]string
	names  []string
}

// maxBytes limits the texts of all filters, which a bulk action keeps. It is twice what a body may
// have, because a value with commas is searched for whole and split.
const maxBytes = 2 << 20

// filter reads the filters of any call; checkNames rejects those that a call does not have.
// statuses completes the error about a bad status.
func (p parameters) filter(statuses string) (f posthaste.Filter, err error) {
	if f.From, err = p.date("fromDate", posthaste.FirstPosition); err != nil {
		return f, err
	}
	if f.Until, err = p.date("toDate", posthaste.LastPosition); err != nil {
		return f, err
	}
	if f.MessageIDs, err = p.messageIDs(); err != nil {
		return f, err
	}
	if f.Statuses, err = p.statuses(statuses); err != nil {
		return f, err
	}
	if f.DeadLetterIDs, err = p.deadLetterIDs(); err != nil {
		return f, err
	}
	if f.CreatedAts, err = p.createdAts(); err != nil {
		return f, err
	}
	if f.CallbackStates, err = p.callbackStates(); err != nil {
		return f, err
	}
	bytes := 0
	for _, text := range []textFilter{
		{&f.URLs, []string{"workflowUrl", "url"}},
		{&f.RunIDPrefixes, []string{"workflowRunId"}},
		{&f.URLGroups, []string{"topicName", "urlGroup"}},
		{&f.ScheduleIDs, []string{"scheduleId"}},
		{&f.Queues, []string{"queueName"}},
		{&f.Labels, []string{"label"}},
		{&f.Hosts, []string{"host"}},
		{&f.Paths, []string{"path"}},
		{&f.CallerIPs, []string{"callerIp", "callerIP"}},
		{&f.FlowKeys, []string{"flowControlKey"}},
	} {
		split := wholeAndParts
		if spell := spellings[text.names[0]]; spell != nil {
			split = func(value string) []string { return alsoIn(spell, wholeAndParts(value)) }
		}
		if *text.values, err = p.list(split, text.names...); err != nil {
			return f, err
		}
		for _, value := range *text.values {
			bytes += len(value)
		}
	}
	if bytes > maxBytes {
		return f, posthaste.Invalidf("the filters have %d bytes with the spellings that are searched for, at most %d are accepted", bytes, maxBytes)
	}
	return f, nil
}

// spellings return the stored form of values, such as URLs in ASCII. Both forms are searched for.
var spellings = map[string]func(string) string{
	"url": asciiURL, "workflowUrl": asciiURL, "host": weburl.Host, "path": weburl.Escape,
}

func asciiURL(text string) string {
	ascii, err := weburl.ASCII("url", text)
	if err != nil {
		return text
	}
	return ascii
}

// alsoIn adds the spelling of each value.
func alsoIn(spelling func(string) string, values []string) []string {
	for _, value := range values {
		values = append(values, spelling(value))
	}
	return values
}

// noMessage is the id of no message. Filters without a valid id select nothing, not everything.
var noMessage posthaste.MessageID

// messageIDs reads messageId and messageIds; given both, an id must be in both. A text that is no
// id matches no message.
func (p parameters) messageIDs() (ids []posthaste.MessageID, err error) {
	for _, name := range []string{"messageId", "messageIds"} {
		texts, err := p.list(parts, name)
		if err != nil {
			return nil, err
		}
		if len(texts) == 0 {
			continue
		}
		named := parseMessageIDs(texts)
		if len(ids) > 0 {
			named = slices.DeleteFunc(named, func(id posthaste.MessageID) bool { return !slices.Contains(ids, id) })
		}
		if ids = named; len(ids) == 0 {
			ids = []posthaste.MessageID{noMessage}
		}
	}
	return ids, nil
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

// createdAts reads workflowCreatedAt.
func (p parameters) createdAts() (ats []time.Time, err error) {
	texts, err := p.list(parts, "workflowCreatedAt")
	for _, text := range texts {
		at, ok := parseMillis(text)
		if !ok {
			return nil, invalid("workflowCreatedAt", text, "a Unix time in milliseconds")
		}
		ats = append(ats, at)
	}
	return ats, err
}

// callbackStates reads both names of the state of a failure callback.
func (p parameters) callbackStates() (states []posthaste.CallbackState, err error) {
	for _, name := range []string{"failureFunctionState", "failureCallbackState"} {
		texts, err := p.list(parts, name)
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			state := posthaste.CallbackState(strings.ToUpper(text))
			if !slices.Contains(posthaste.CallbackStates, state) {
				return nil, invalid(name, text, "CALLBACK_INPROGRESS, CALLBACK_SUCCESS, CALLBACK_FAIL or CALLBACK_CANCELED")
			}
			states = append(states, state)
		}
	}
	return states, nil
}
