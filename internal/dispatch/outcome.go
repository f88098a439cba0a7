package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"posthaste"
)

// statusNonRetryable, together with a header, asks for no retry.
const statusNonRetryable = 489

var nonRetryableHeaders = []string{"Upstash-Nonretryable-Error", "Service-Nonretryable-Error"}

// judge returns the outcome of a complete response. Only 2xx is a success.
func (d *Dispatcher) judge(response *posthaste.Response) posthaste.Outcome {
	outcome := posthaste.Outcome{Response: response}
	switch {
	case isGood(response.Status):
		outcome.Class = posthaste.OutcomeDelivered
	case response.Status == statusNonRetryable && wantsNoRetry(response.Header):
		outcome.Class = posthaste.OutcomePermanent
		outcome.Error = "489: the destination asks for no retry"
	default:
		outcome.Class = posthaste.OutcomeRetryable
		outcome.Error = describeStatus(response.Status)
		outcome.RetryAfter, outcome.HasRetryAfter = d.options.RetryAfter(response.Header, time.Now())
	}
	return outcome
}

func isGood(status int) bool { return status >= 200 && status <= 299 }

func wantsNoRetry(header http.Header) bool {
	for _, name := range nonRetryableHeaders {
		if strings.EqualFold(header.Get(name), "true") {
			return true
		}
	}
	return false
}

// describeStatus returns a status with its standard text, not the destination's.
func describeStatus(status int) string {
	text := strconv.Itoa(status)
	if reason := http.StatusText(status); reason != "" {
		text += " " + reason
	}
	if status >= 300 && status <= 399 {
		text += ": redirects are not followed"
	}
	return text
}

// permanent returns the outcome of an impossible attempt. Only the message of an Error is shown.
func permanent(err error) posthaste.Outcome {
	text := "the destination cannot be requested"
	if shown, ok := errors.AsType[*posthaste.Error](err); ok {
		text = shown.Message
	}
	return posthaste.Outcome{Class: posthaste.OutcomePermanent, Error: text}
}

func retryable(text string) posthaste.Outcome {
	return posthaste.Outcome{Class: posthaste.OutcomeRetryable, Error: text}
}

// unsigned returns the outcome of an internal signing failure, whose cause is only logged.
func (d *Dispatcher) unsigned(parent context.Context, m *posthaste.Message, cause error) posthaste.Outcome {
	if parent.Err() != nil {
		return retryable(abandoned)
	}
	d.log(slog.LevelError, "attempt.unsigned", m, cause)
	outcome := retryable("the request could not be signed")
	outcome.Unsigned = cause
	return outcome
}

// unanswered returns the outcome without a complete response.
func (d *Dispatcher) unanswered(parent context.Context, m *posthaste.Message, cause error, host string, limit time.Duration) posthaste.Outcome {
	if parent.Err() != nil {
		return retryable(abandoned)
	}
	d.log(slog.LevelDebug, "attempt.unanswered", m, cause)
	outcome := retryable(explain(cause, host, limit))
	outcome.TimedOut = errors.Is(cause, context.DeadlineExceeded) || isHandshakeTimeout(cause)
	return outcome
}

func (d *Dispatcher) log(level slog.Level, event string, m *posthaste.Message, cause error) {
	d.options.Log.LogAttrs(context.Background(), level, event,
		slog.String("message_id", m.ID.String()),
		slog.String("user", m.User),
		slog.String("error", cause.Error()))
}
