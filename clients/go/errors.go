package claimq

import (
	"fmt"
	"time"
)

// SidecarUnavailable: no sidecar answers on the socket. It is unknown whether the last call took effect.
type SidecarUnavailable struct {
	Reason string
	Cause  error
}

func (e *SidecarUnavailable) Error() string { return e.Reason }
func (e *SidecarUnavailable) Unwrap() error { return e.Cause }

// StoreUnavailable: the sidecar answers, and its store does not, or has no room now.
type StoreUnavailable struct{ Reason string }

func (e *StoreUnavailable) Error() string { return e.Reason }

// Refused: the sidecar refuses the request and would refuse it again.
type Refused struct {
	Status       int
	Kind, Detail string
}

func (e *Refused) Error() string { return fmt.Sprintf("%s (%d %s)", e.Detail, e.Status, e.Kind) }

// PayloadError: the payload is not what the program reads it as.
type PayloadError struct{ Reason string }

func (e *PayloadError) Error() string { return e.Reason }

// ItemNotSettled: a loop asked for the next item while the last one had no verdict. The program has to change.
type ItemNotSettled struct{ ID string }

func (e *ItemNotSettled) Error() string {
	return fmt.Sprintf("the loop over Items asked for the next item before item %s had a verdict, so it was failed and goes "+
		"back. Write item.Go(func() error {...}) around the work, or end each item with item.Settle(err), item.Done() or "+
		"item.Fail(err) before the next one. If other goroutines end the items, set Options.SettleElsewhere", e.ID)
}

// Fail is an error of the work with a reason of its own. Delay: until the next attempt, instead of the policy's.
type Fail struct {
	Reason    string
	Permanent bool
	Delay     time.Duration
}

func (e Fail) Error() string { return e.Reason }

// Requeue as the error of the work means: not now. Without a Delay the item goes to the tail.
type Requeue struct{ Delay time.Duration }

func (e Requeue) Error() string { return "the item was requeued" }

// Later as the error of the work means: not now, for a reason that is not the item's, such as a service that is away.
// Close: "queue", "client" or "key": no worker claims from it until then.
type Later struct {
	Delay time.Duration
	Close string
}

func (e Later) Error() string { return "the item was postponed" }
