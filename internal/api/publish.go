package api

import (
	"context"
	"errors"
	"net/http"

	"fmt"
	"github.com/go-chi/chi/v5"
	"slices"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/engine"
)

// Publisher accepts messages.
type Publisher interface {
	// Publish returns a receipt per endpoint, exactly one for a URL.
	Publish(ctx context.Context, user string, p engine.Publication) ([]engine.Receipt, error)
	// PublishBatch accepts publications independently and returns results in order.
	PublishBatch(ctx context.Context, user string, publications []engine.Publication) ([]engine.Result, error)
}

// publish accepts a message for the destination in the path (contract, messages 2.2).
func (a *api) publish(r *request) (answer, error) {
	return a.accept(r, "")
}

// enqueue is publish through the queue in the path.
func (a *api) enqueue(r *request) (answer, error) {
	queue := r.pathText("queue")
	if err := posthaste.CheckNewName("queue name", queue); err != nil {
		return answer{}, err
	}
	return a.accept(r, queue)
}

// accept makes a message, or a schedule if there is a cron expression.
func (a *api) accept(r *request, queue string) (answer, error) {
	controls, err := r.collectControls()
	if err != nil {
		return answer{}, err
	}
	if controls.OfRun() {
		return a.publishForRun(r, controls, queue)
	}
	if err := r.checkKnown(controls); err != nil {
		return answer{}, err
	}
	if _, _, given := controls.Cron(); given {
		return a.putSchedule(r, controls, queue)
	}
	p, err := a.newIntake(r).publication(r.destinationText(), controls, r.incoming())
	if err != nil {
		return answer{}, err
	}
	p.Queue = queue
	if p.Body, err = r.readBody(a.options.MaxBody); err != nil {
		return answer{}, err
	}
	receipts, err := a.options.Engine.Publish(r.Context(), r.user, p)
	if err != nil {
		return answer{}, err
	}
	return receiptAnswer(p.Destination, receipts)
}

// maxWarnings limits the warnings of a response.
const maxWarnings = 10

// warning is the header about names without effect.
const warning = "Posthaste-Warning"

func (r *request) collectControls() (wire.Controls, error) { return wire.Collect(r.Header, r.reserved) }

// knownControls collects controls and checks that they are known.
func (r *request) knownControls() (wire.Controls, error) {
	c, err := r.collectControls()
	if err == nil {
		err = r.checkKnown(c)
	}
	return c, err
}

// checkKnown checks the controls of a request or item, and adds warnings to the response.
func (r *request) checkKnown(c wire.Controls) error {
	odd, err := c.CheckKnown()
	header := r.writer.Header()
	for _, name := range odd {
		text := fmt.Sprintf("%.100s is not known and has no effect", name)
		if !slices.Contains(header[warning], text) && len(header[warning]) < maxWarnings {
			header.Add(warning, text)
		}
	}
	return err
}

// nameLimit names the header of a limited setting in an error about it.
func (r *request) nameLimit(err error) error {
	if err == nil {
		return nil
	}
	c, bad := r.collectControls()
	if bad != nil {
		return err
	}
	return c.NameLimit(err)
}

// incoming returns the headers of a single publication.
func (r *request) incoming() wire.Incoming {
	return wire.Incoming{Header: r.Header, OwnsAuthorization: !r.tokenInQuery}
}

// destinationText returns the destination in the path with its query.
func (r *request) destinationText() string {
	text := chi.URLParamFromCtx(r.Context(), "*")
	if r.rest != "" || r.target.hasQuery && len(r.reserved) == 0 {
		text += "?" + r.rest
	}
	return text
}

// receiptView is the result for one endpoint.
type receiptView struct {
	MessageID    posthaste.MessageID `json:"messageId"`
	URL          string              `json:"url,omitempty"` // for URL groups
	Deduplicated bool                `json:"deduplicated,omitempty"`
}

// receiptAnswer's status says whether all was deduplicated.
func receiptAnswer(destination string, receipts []engine.Receipt) (answer, error) {
	view, err := newReceiptsView(destination, receipts)
	if err != nil {
		return answer{}, err
	}
	status := http.StatusAccepted
	for _, receipt := range receipts {
		if !receipt.Deduplicated {
			status = http.StatusOK
		}
	}
	return answer{status, view}, nil
}

// newReceiptsView returns an object for a URL, an array for a URL group. If a URL repeats a
// publication to a group, it is the first receipt.
func newReceiptsView(destination string, receipts []engine.Receipt) (any, error) {
	group := !wire.IsURL(destination)
	views := make([]receiptView, len(receipts))
	for i, receipt := range receipts {
		views[i] = receiptView{MessageID: receipt.MessageID, Deduplicated: receipt.Deduplicated}
		if group {
			views[i].URL = receipt.URL
		}
	}
	if group {
		return views, nil
	}
	if len(views) == 0 {
		return nil, errors.New("engine gave no receipt")
	}
	return views[0], nil
}
