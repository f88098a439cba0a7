package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
	"time"

	"posthaste"
)

// Publication is a request to deliver something.
type Publication struct {
	Destination string        // absolute URL, or name of a URL group
	Queue       string        // optional
	Body        []byte        // owned by the engine
	Delay       time.Duration // before the first attempt
	NotBefore   time.Time     // overrides Delay
	CallerIP    string        // without port

	DeduplicationID           string // overrides ContentBasedDeduplication
	ContentBasedDeduplication bool   // the id is a hash of the content

	scheduleID string // of the publishing schedule

	posthaste.Settings
}

// Receipt is the result of a publication for one endpoint.
type Receipt struct {
	MessageID    posthaste.MessageID
	URL          string
	Deduplicated bool // MessageID is that of the earlier message; nothing was accepted
}

// StartAt returns when the first attempt is due, not before now.
func (p *Publication) StartAt(now time.Time) time.Time {
	o := posthaste.Overrides{Delay: p.Delay, NotBefore: p.NotBefore}
	return o.StartAt(now)
}

// dedupKey returns the deduplication key, "" for none.
func (p *Publication) dedupKey() string {
	switch {
	case p.DeduplicationID != "":
		return "id:" + p.DeduplicationID
	case p.ContentBasedDeduplication:
		return "content:" + string(p.contentHash())
	default:
		return ""
	}
}

// contentHash covers destination, body, forwarded headers and Content-Type (contract, messages
// 6.4).
func (p *Publication) contentHash() []byte {
	h := sha256.New()
	hashText(h, p.Destination)
	hashText(h, string(p.Body))
	for _, name := range slices.Sorted(maps.Keys(p.Header)) {
		hashText(h, name)
		for _, value := range p.Header[name] {
			hashText(h, value)
		}
		hashText(h, "") // end of the values
	}
	return h.Sum(nil)
}

// hashText hashes length and text, so that different lists have different hashes.
func hashText(h hash.Hash, text string) {
	_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(text))))
	_, _ = h.Write([]byte(text))
}
