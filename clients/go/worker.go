// Package claimq works on the items of a claimq queue, and adds items, through the socket of its sidecar.
package claimq

import (
	"context"
	"errors"
	"iter"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const forgotten = "the loop over Items went on before this item had a verdict; write item.Go(...) around the work"

// Options of a worker. All may be left out.
type Options struct {
	Socket          string        // the path of the socket: $CLAIMQ_SOCKET, else /run/claimq/claimq.sock
	Within          time.Duration // how long the first request waits for a sidecar that starts later: 10 s
	Patience        time.Duration // how long requests are repeated while the sidecar or its store is away: 2 minutes
	Window          int           // the most items without a verdict: the concurrency of the sidecar
	SettleElsewhere bool          // do not check that an item has a verdict or Go when the loop asks for the next one
	IgnoreSignals   bool          // SIGTERM and SIGINT do not end the loop
	Log             func(format string, values ...any)
}

// Worker is a connection to the sidecar. Any goroutine may call its methods.
type Worker struct {
	calls   *calls
	options Options
	leaving sync.Once

	lock       sync.Mutex
	changed    *sync.Cond
	stream     *stream
	held       map[string]*Item // by token: those that were delivered and have no outcome
	waiting    []*Item          // of these, the ones that the loop has not begun
	verdicts   []*verdict       // for the next request
	isSending  bool
	isStopping bool
	isDraining bool
	hasLeft    bool // nothing more is delivered
	failure    error
}

type verdict struct {
	item    *Item
	verb    string
	words   map[string]any
	outcome Outcome
	end     chan error
}

// Connect returns a worker, which connects to the sidecar when it is used.
func Connect(options Options) *Worker {
	w := &Worker{calls: newCalls(options), options: options, held: map[string]*Item{}}
	w.changed = sync.NewCond(&w.lock)
	return w
}

func (w *Worker) log(format string, values ...any) {
	if w.options.Log != nil {
		w.options.Log(format, values...)
	} else {
		log.Printf(format, values...)
	}
}

// Items returns the items until a drain, a signal, Stop, or the end of ctx; those in progress are ended first. Then look
// at Err.
func (w *Worker) Items(ctx context.Context) iter.Seq[*Item] {
	return func(yield func(*Item) bool) {
		if !w.open() {
			w.fail(errors.New("a worker has one loop over Items; begin several items in it with item.Go(...)"))
			return
		}
		defer context.AfterFunc(ctx, w.Stop)()
		if !w.options.IgnoreSignals {
			defer w.stopOnSignals()()
		}
		defer w.leave()
		for item := w.next(); item != nil; item = w.next() {
			if !yield(item) {
				return
			}
			if w.isForgotten(item) {
				w.Stop() // or the item is delivered again
				_, err := item.Fail(errors.New(forgotten))
				w.fail(errors.Join(&ItemNotSettled{item.ID}, err))
				return
			}
		}
		w.leave()
		w.lock.Lock()
		defer w.lock.Unlock()
		for len(w.held) > 0 && w.failure == nil {
			w.changed.Wait()
		}
	}
}

// Err returns the error that has ended the loop.
func (w *Worker) Err() error {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.failure
}

// Draining reports whether the sidecar gives no more items.
func (w *Worker) Draining() bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.isDraining
}

// Stop ends the loop; items in progress are ended first.
func (w *Worker) Stop() {
	w.lock.Lock()
	w.isStopping = true
	w.changed.Broadcast()
	w.lock.Unlock()
	go w.leave()
}

// Close gives back what is in progress, uncounted, and closes all connections.
func (w *Worker) Close() {
	w.lock.Lock()
	w.isStopping = true
	w.changed.Broadcast()
	w.lock.Unlock()
	w.leave()
	w.lock.Lock()
	var rest []*Item
	for _, item := range w.held {
		if !item.isEnding {
			rest = append(rest, item)
		}
	}
	stream := w.stream
	w.lock.Unlock()
	var unclaims sync.WaitGroup
	for _, item := range rest {
		unclaims.Add(1)
		go func() {
			defer unclaims.Done()
			_, _ = item.Unclaim() // without it the item goes back with the stream
		}()
	}
	unclaims.Wait()
	if stream != nil {
		stream.close()
	}
	w.calls.close()
}

// open opens the stream; false if there is one.
func (w *Worker) open() bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.stream != nil {
		return false
	}
	w.stream = newStream(w, w.options.Window)
	go func() {
		if err := w.stream.read(); err != nil {
			w.fail(err)
		}
	}()
	return true
}

func (w *Worker) next() *Item {
	w.lock.Lock()
	defer w.lock.Unlock()
	for len(w.waiting) == 0 && !w.isStopping && w.failure == nil {
		w.changed.Wait()
	}
	if w.isStopping || w.failure != nil {
		return nil
	}
	item := w.waiting[0]
	w.waiting = w.waiting[1:]
	item.isBegun = true
	return item
}

func (w *Worker) isForgotten(item *Item) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return !(w.options.SettleElsewhere || item.isRunning || item.isEnding || item.outcome != nil)
}

// leave takes nothing more, and gives back what was not begun.
func (w *Worker) leave() {
	w.lock.Lock()
	w.isStopping = true
	stream, failure := w.stream, w.failure
	w.lock.Unlock()
	var sidecar *SidecarUnavailable
	if stream == nil || errors.As(failure, &sidecar) {
		return
	}
	w.leaving.Do(stream.giveBack)
	w.lock.Lock()
	defer w.lock.Unlock()
	w.hasLeft = true
	w.closeIfOver()
}

// closeIfOver closes the stream, which takes the claims with it.
func (w *Worker) closeIfOver() {
	if w.hasLeft && len(w.held) == 0 {
		w.stream.close()
	}
}

func (w *Worker) stopOnSignals() func() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	over := make(chan struct{})
	go func() {
		select {
		case <-signals:
			signal.Stop(signals) // a second one has its usual effect
			w.Stop()
		case <-over:
			signal.Stop(signals)
		}
	}()
	return func() { close(over) }
}

// fail ends the loop with an error.
func (w *Worker) fail(err error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.failure == nil {
		w.failure = err
	}
	w.changed.Broadcast()
}
