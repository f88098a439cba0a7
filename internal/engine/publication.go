package engine

import (
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
	posthaste.Settings
}

// Receipt tells what became of one publication and one endpoint.
type Receipt struct {
	MessageID    posthaste.MessageID
	URL          string
	Deduplicated bool // MessageID is an earlier message's; nothing was accepted
}
