package posthaste

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of the texts that a store makes keys, rows and index terms of. A text beyond its
// bound is refused where it enters. All are in bytes.
const (
	MaxUserIDLen          = 255  // of a user; stores keep its length in one byte
	MaxNameLen            = 256  // of a queue, a URL group, an endpoint, a schedule
	MaxFlowKeyLen         = 256  // of a flow-control key
	MaxLabelLen           = 256  // of a label
	MaxLabels             = 100  // of a message
	MaxDeduplicationIDLen = 1024 // clients make it from data of their own
	MaxRunIDLen           = 256  // of a workflow run
	MaxEventIDLen         = 256  // of an event that runs wait for
	MaxHostLen            = 253  // of a URL, without the port, as in DNS
	MaxURLLen             = 16 << 10
)

// CheckLen returns an Error with CodeInvalid if the text is longer than most bytes. What the
// text is begins the sentence.
func CheckLen(what, text string, most int) error {
	if len(text) > most {
		return Invalidf("%s %.40q… has %d bytes: at most %d are accepted", what, text, len(text), most)
	}
	return nil
}

// CheckUserID returns an Error with CodeInvalid unless the text can be the id of a user.
func CheckUserID(what, id string) error {
	if id == "" {
		return Invalidf("%s is empty: a text of 1 to %d bytes is accepted", what, MaxUserIDLen)
	}
	if !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
		return Invalidf("%s %.100q is invalid: UTF-8 without control characters is accepted", what, id)
	}
	return CheckLen(what, id, MaxUserIDLen)
}

// CheckFlowKey returns an Error with CodeInvalid unless the text can be a flow-control key.
func CheckFlowKey(what, key string) error {
	if key == "" {
		return Invalidf("%s is empty: a text of 1 to %d bytes is accepted", what, MaxFlowKeyLen)
	}
	return CheckLen(what, key, MaxFlowKeyLen)
}

// CheckDeduplicationID returns an Error with CodeInvalid unless the text can be a
// deduplication id.
func CheckDeduplicationID(what, id string) error {
	if id == "" {
		return Invalidf("%s is empty: a text of 1 to %d bytes is accepted", what, MaxDeduplicationIDLen)
	}
	return CheckLen(what, id, MaxDeduplicationIDLen)
}
