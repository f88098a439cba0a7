package api_test

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

// readable returns a value with its objects in one form and its lists in one order.
func (h *historian) readable(v any) []byte {
	v = opened(v)
	h.sortTies(v)
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		h.Fatal(err)
	}
	return text
}

// opened returns a value with the objects and lists in it that are written in base64 as
// text: ids in them get their names, too.
func opened(v any) any {
	switch v := v.(type) {
	case string:
		if text, err := base64.StdEncoding.DecodeString(v); err == nil && json.Valid(text) && strings.ContainsAny(string(text[:1]), "{[") {
			return string(text)
		}
	case map[string]any:
		for name := range v {
			v[name] = opened(v[name])
		}
	case []any:
		for i := range v {
			v[i] = opened(v[i])
		}
	}
	return v
}

// sortTies sorts what follows each other in lists and is of the same moment.
func (h *historian) sortTies(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			h.sortTies(member)
		}
	case []any:
		for _, element := range v {
			h.sortTies(element)
		}
		for len(v) > 0 {
			n := 1
			for n < len(v) && momentOf(v[n]) != "" && momentOf(v[n]) == momentOf(v[0]) {
				n++
			}
			slices.SortStableFunc(v[:n], func(a, b any) int { return strings.Compare(h.faceOf(a), h.faceOf(b)) })
			v = v[n:]
		}
	}
}

// momentOf is the time by which lists have an element in its place, "" if it has none.
func momentOf(element any) string {
	object, _ := element.(map[string]any)
	for _, name := range []string{"time", "failedAt", "workflowRunCreatedAt", "createdAt"} {
		if at, ok := object[name].(json.Number); ok {
			return at.String()
		}
	}
	return ""
}

// faceOf is how an element looks to who does not know the ids that have no name yet.
func (h *historian) faceOf(element any) string {
	text, err := json.Marshal(element)
	if err != nil {
		h.Fatal(err)
	}
	return h.names.without(string(text))
}
