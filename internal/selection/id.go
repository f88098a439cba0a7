package selection

import (
	"net/url"
	"slices"

	"posthaste"
)

// IDs returns the distinct texts of a parameter by which a bulk call lists what it
// is about, nil if it is not given. Unlike filters, there may be any number. A list that
// is empty, as only a body can say, is one: what it names is nothing, and not everything
// (contract, workflows D 38).
func IDs(params url.Values, name string) ([]string, error) {
	p := parameters(params)
	if values, given := p[name]; given && len(values) == 0 && p[name+exact] == nil {
		return []string{}, nil
	}
	if err := p.checkValues([]string{name}); err != nil {
		return nil, err
	}
	return p.distinct(parts, name), nil
}

// nowhere is the id of no message: a filter of texts that are no ids is a filter
// that nothing passes, not one that everything does.
var nowhere posthaste.MessageID

// messageIDs reads messageId and messageIds, which are two filters: given
// together, an id has to be in both. A text that is no id is the id of no message.
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
