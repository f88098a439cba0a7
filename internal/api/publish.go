package api

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"posthaste"
	"posthaste/internal/engine"
)

// receiptView is what a publisher is told about one endpoint.
type receiptView struct {
	MessageID    posthaste.MessageID `json:"messageId"`
	URL          string              `json:"url,omitempty"` // of an endpoint of a URL group
	Deduplicated bool                `json:"deduplicated,omitempty"`
}

// publish accepts a message for the destination in the path (contract, messages
// 2.2).
func (a *api) publish(r *request) (answer, error) {
	destination, err := a.decoder.destination(r.destinationText())
	if err != nil {
		return answer{}, err
	}
	p, err := a.decodePublication(r)
	if err != nil {
		return answer{}, err
	}
	p.Destination = destination.text
	if p.Body, err = r.readBody(); err != nil {
		return answer{}, err
	}
	receipts, err := a.options.Engine.Publish(r.Context(), r.user, p)
	if err != nil {
		return answer{}, err
	}
	return receiptAnswer(destination, receipts)
}

// destinationText returns what follows the route's prefix, with what the query
// holds for the destination.
func (r *request) destinationText() string {
	text := chi.URLParamFromCtx(r.Context(), "*")
	if r.rest != "" || r.target.hasQuery && len(r.reserved) == 0 {
		text += "?" + r.rest
	}
	return text
}

// decodePublication reads what headers and query say about a publication.
func (a *api) decodePublication(r *request) (engine.Publication, error) {
	controls, err := collectControls(r.Header, r.reserved)
	if err != nil {
		return engine.Publication{}, err
	}
	if cron, ok := controls.values[controlCron]; ok {
		return engine.Publication{}, posthaste.Invalidf("%s %.100q cannot be accepted: this server has no schedules",
			cron.name, cron.text())
	}
	p, err := a.decoder.publication(controls, incoming{header: r.Header, ownsAuthorization: !r.tokenInQuery})
	p.CallerIP = a.callerIP(r.Request)
	return p, err
}

// receiptAnswer is one object for a URL and an array for a group. The status
// tells a publication that was accepted before from one that is new.
func receiptAnswer(destination destination, receipts []engine.Receipt) (answer, error) {
	views := make([]receiptView, len(receipts))
	status := http.StatusAccepted
	for i, receipt := range receipts {
		views[i] = receiptView{MessageID: receipt.MessageID, Deduplicated: receipt.Deduplicated}
		if destination.group {
			views[i].URL = receipt.URL
		}
		if !receipt.Deduplicated {
			status = http.StatusOK
		}
	}
	if destination.group {
		return answer{status, views}, nil
	}
	if len(views) != 1 {
		return answer{}, fmt.Errorf("engine gave %d receipts for one URL", len(views))
	}
	return answer{status, views[0]}, nil
}
