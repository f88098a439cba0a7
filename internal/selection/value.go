package selection

import (
	"slices"
	"strconv"
	"strings"

	"posthaste"
	"posthaste/internal/store"
)

// inProgress stands for the states of a message between its acceptance and its
// end, in the filter only.
const inProgress = "IN_PROGRESS"

var inProgressStates = []posthaste.State{posthaste.StateActive, posthaste.StateRetry, posthaste.StateError}

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

// nowhere is the id of no message: a filter of texts that are no ids is a filter
// that nothing passes, not one that everything does.
var nowhere posthaste.MessageID

// readMessageIDs reads messageId and messageIds, which are two filters: given
// together, an id has to be in both. A text that is no id is the id of no message.
func readMessageIDs(p parameters) (ids []posthaste.MessageID, err error) {
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
			ids = []posthaste.MessageID{nowhere}
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

// readDeadLetterIDs reads dlqIds. A text that is no id is the id of no dead
// letter.
func readDeadLetterIDs(p parameters) (ids []posthaste.DeadLetterID, err error) {
	texts, err := p.list(parts, "dlqIds")
	if len(texts) == 0 || err != nil {
		return nil, err
	}
	for _, text := range texts {
		if id, ok := posthaste.ParseDeadLetterID(text); ok {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		ids = []posthaste.DeadLetterID{0}
	}
	return ids, nil
}

func readStatuses(p parameters) (statuses []int, err error) {
	texts, err := p.list(parts, "responseStatus")
	for _, text := range texts {
		status, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return nil, invalid("responseStatus", text, "an HTTP status, or 0 for no response")
		}
		statuses = append(statuses, int(status))
	}
	return statuses, err
}
