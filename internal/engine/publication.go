package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"time"

	"posthaste"
)

// Publication is a request to deliver something, before it is a message.
type Publication struct {
	Destination string        // an absolute URL, or the name of a URL group
	Queue       string        // the queue to go through, if any
	Body        []byte        // owned by the engine from here on
	Delay       time.Duration // wait before the first attempt
	NotBefore   time.Time     // absolute start; beats Delay
	CallerIP    string        // address of the publisher, without port

	DeduplicationID           string // explicit id; beats ContentBasedDeduplication
	ContentBasedDeduplication bool   // the content is the id

	scheduleID string // of the schedule that publishes

	posthaste.Settings
}

// Receipt tells what became of one publication and one endpoint.
type Receipt struct {
	MessageID    posthaste.MessageID
	URL          string
	Deduplicated bool // MessageID is an earlier message's; nothing was accepted
}

// StartAt returns when the first attempt is due: NotBefore beats Delay, and
// neither reaches into the past.
func (p *Publication) StartAt(now time.Time) time.Time {
	start := now.Add(p.Delay)
	if !p.NotBefore.IsZero() {
		start = p.NotBefore
	}
	if start.Before(now) {
		return now
	}
	return start
}

// dedupKey returns what identifies the publication against repetition, "" if
// nothing does. An id beats the content.
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

// contentHash covers what the destination would see: the destination, the body,
// and the forwarded headers with the Content-Type (contract, messages 6.4).
func (p *Publication) contentHash() []byte {
	h := sha256.New()
	hashText(h, p.Destination)
	hashText(h, string(p.Body))
	names := make([]string, 0, len(p.Header))
	for name := range p.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		hashText(h, name)
		for _, value := range p.Header[name] {
			hashText(h, value)
		}
		hashText(h, "") // no header value and name can run into each other
	}
	return h.Sum(nil)
}

// hashText adds a text and its length, so that no two lists of texts hash alike.
func hashText(h hash.Hash, text string) {
	_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(text))))
	_, _ = h.Write([]byte(text))
}
