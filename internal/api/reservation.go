package api

import (
	"context"
	"net/http"

	"posthaste/internal/store"
)

// reservation is the memory for the pages of one request, one page at a time: from before a
// page is read, when its size is unknown, until the client has received it, which may take
// minutes. It is for one goroutine.
type reservation struct {
	gate Gate
	user string
	most int64 // bytes of the largest page
	held int64
}

func (r *request) newReservation() *reservation {
	return &reservation{gate: r.pageBytes, user: r.user, most: r.largestPage}
}

// largestPage returns the bytes of the largest page there is: one message may be more than
// others together.
func largestPage(maxBody int64) int64 { return max(store.PageBytes, maxBody) }

// reserve waits until there is memory for any page. It releases that of the page before.
func (p *reservation) reserve(ctx context.Context) error {
	p.release()
	if err := p.gate.Enter(ctx, p.user, p.most); err != nil {
		return err
	}
	p.held = p.most
	return nil
}

// shrink releases what is more than size.
func (p *reservation) shrink(size int) {
	if rest := int64(size); rest < p.held {
		p.gate.Shrink(p.user, p.held, rest)
		p.held = rest
	}
}

// release releases all.
func (p *reservation) release() {
	if p.held > 0 {
		p.gate.Leave(p.user, p.held)
		p.held = 0
	}
}

// readPage reads a page when there is memory for it. It returns the reservation, shrunk to the
// size that read returns, which the caller must release. After an error there is nothing to release.
func (r *request) readPage(read func() (size int, err error)) (*reservation, error) {
	reserved, needed := r.newReservation(), 0
	if err := reserved.reserve(r.Context()); err != nil {
		return nil, err
	}
	defer func() { reserved.shrink(needed) }() // also if read panics
	size, err := read()
	if err != nil {
		return nil, err
	}
	needed = size
	return reserved, nil
}

// readOne reads a record that may be large, and answers with its view. While it waits for
// memory the request holds no place at the gate of requests.
func (r *request) readOne(read func() (view any, size int, err error)) (_ answer, err error) {
	var one reservedResponse
	one.reserved, err = r.readPage(func() (size int, err error) {
		if err := r.work(); err != nil {
			return 0, err
		}
		one.view, size, err = read()
		return size, err
	})
	return ok(one), err
}

// reservedResponse is a view, and the memory reserved for it until it is written.
type reservedResponse struct {
	reserved *reservation
	view     any
}

// ServeHTTP implements http.Handler.
func (o reservedResponse) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer o.reserved.release()
	stopReading(w, r)
	writeJSON(w, http.StatusOK, o.view)
}

// withReservation does work that reads a page and shows it to nobody.
func (r *request) withReservation(work func() error) error {
	reserved := r.newReservation()
	if err := reserved.reserve(r.Context()); err != nil {
		return err
	}
	defer reserved.release()
	return work()
}
