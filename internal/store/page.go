package store

import (
	"encoding/base64"
	"net/http"

	"posthaste"
)

// PageBytes is what a page holds at most unless it is asked for less, as Entry.Size and its
// like count it. One item that is larger is a page of its own.
const PageBytes = 16 << 20

// PageBudget is what is left of a page, in bytes.
type PageBudget struct {
	limit, taken int
}

// NewPageBudget returns the room of an empty page; 0 stands for PageBytes.
func NewPageBudget(limit int) PageBudget {
	if limit == 0 {
		limit = PageBytes
	}
	return PageBudget{limit: limit}
}

// Left returns how much room is left.
func (r *PageBudget) Left() int { return max(0, r.limit-r.taken) }

// Take takes the room of an item, and reports whether there was enough: for the first one
// there always is.
func (r *PageBudget) Take(size int) bool {
	if r.taken > 0 && r.taken+size > r.limit {
		return false
	}
	r.taken += size
	return true
}

// Size returns the bytes of the entry that grow with what people send.
func (e *Entry) Size() int { return e.MessageSize + len(e.Error) + ResponseSize(e.Response) }

// DeadLetterSize is Entry.Size of a dead letter.
func DeadLetterSize(d *posthaste.DeadLetter) int {
	return MessageSize(d.Message) + len(d.Error) + ResponseSize(d.Response)
}

// RunSize is Entry.Size of a run. Its list is not counted: it is not part of it.
func RunSize(run *posthaste.Run) int {
	n := len(run.URL) + settingsSize(&run.Settings)
	if run.Result != nil {
		n += len(*run.Result)
	}
	if run.Reported != nil {
		n += len(run.Reported.URL) + len(run.Reported.Error) + ResponseSize(run.Reported.Response)
	}
	return n
}

// MessageSize is Entry.Size of a message.
func MessageSize(m *posthaste.Message) int {
	return len(m.Body) + len(m.URL) + settingsSize(&m.Settings)
}

// DeliverySize returns how many bytes of memory an attempt of a message takes: a step
// delivers the list of its run, in base64.
func DeliverySize(m *posthaste.Message) int {
	n := MessageSize(m)
	if m.Run != nil && m.Run.CallType == posthaste.CallStep {
		n += base64.StdEncoding.EncodedLen(m.Run.ListBytes)
	}
	return n
}

// ResponseSize is Entry.Size of a response, 0 for none.
func ResponseSize(r *posthaste.Response) int {
	if r == nil {
		return 0
	}
	return len(r.Body) + headerSize(r.Header)
}

func settingsSize(s *posthaste.Settings) int {
	n := headerSize(s.Header)
	for _, label := range s.Labels {
		n += len(label)
	}
	for _, c := range []*posthaste.Callback{s.Callback, s.FailureCallback} {
		if c != nil {
			n += len(c.URL) + settingsSize(&c.Settings) + headerSize(c.Given)
		}
	}
	return n
}

func headerSize(header http.Header) (n int) {
	for name, values := range header {
		n += len(name)
		for _, value := range values {
			n += len(value)
		}
	}
	return n
}
