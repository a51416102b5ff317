package claimq

import "errors"

// tokens returns those of all claims.
func (w *Worker) tokens() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	tokens := make([]string, 0, len(w.held))
	for token := range w.held {
		tokens = append(tokens, token)
	}
	return tokens
}

// note notes a line of the stream.
func (w *Worker) note(next line) {
	for _, token := range next.Lost {
		w.noteLost(token)
	}
	if next.Draining {
		w.lock.Lock()
		w.isDraining = true
		w.lock.Unlock()
		w.Stop()
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.isStopping { // what it delivers now is given back
		return
	}
	for number := range next.Claims {
		claim := &next.Claims[number]
		item := &claim.Item
		item.text, item.bytes, item.worker = claim.Text, claim.Bytes, w
		w.held[item.Token] = item
		w.waiting = append(w.waiting, item)
	}
	w.changed.Broadcast()
}

func (w *Worker) noteLost(token string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	item := w.held[token]
	if item == nil || item.isEnding { // the reply to its verdict decides
		return
	}
	if item.isBegun {
		go w.log("item %s was lost while the sidecar was away; another worker has it or will", item.ID)
	}
	for number, one := range w.waiting {
		if one == item {
			w.waiting = append(w.waiting[:number:number], w.waiting[number+1:]...)
			break
		}
	}
	w.end(item, Outcome{Verdict: "lost"})
}

// forget returns those of the tokens that were not begun, which the worker holds no longer.
func (w *Worker) forget(tokens []string) []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.waiting = nil
	var rest []string
	for _, token := range tokens {
		if item := w.held[token]; item == nil || !item.isBegun {
			rest = append(rest, token)
			delete(w.held, token)
		}
	}
	w.changed.Broadcast()
	return rest
}

// settle sends a verdict. Those that come while a request is in flight share the next one.
func (w *Worker) settle(item *Item, verb string, words map[string]any) (Outcome, error) {
	words["token"] = item.Token
	one := &verdict{item: item, verb: verb, words: words, end: make(chan error, 1)}
	w.lock.Lock()
	item.isEnding = true
	w.verdicts = append(w.verdicts, one)
	if !w.isSending {
		w.isSending = true
		go w.sendAll()
	}
	w.lock.Unlock()
	err := <-one.end
	return one.outcome, err
}

func (w *Worker) sendAll() {
	for {
		w.lock.Lock()
		batch := w.verdicts
		w.verdicts = nil
		w.isSending = len(batch) > 0
		w.lock.Unlock()
		if len(batch) == 0 {
			return
		}
		for start := 0; start < len(batch); start += most {
			w.send(batch[start:min(start+most, len(batch))])
		}
	}
}

type outcomes struct{ Outcomes []Outcome }

func (w *Worker) send(batch []*verdict) {
	body := map[string][]map[string]any{}
	for _, one := range batch {
		body[one.verb] = append(body[one.verb], one.words)
	}
	var answer outcomes
	isRepeated, err := w.calls.ask("/v1/verdicts", body, &answer, w.calls.tryFor(), true)
	var refused *Refused
	if errors.As(err, &refused) && len(batch) > 1 { // nothing was carried out
		for number := range batch {
			w.send(batch[number : number+1])
		}
		return
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	byToken := map[string]Outcome{}
	for _, outcome := range answer.Outcomes {
		if isRepeated && outcome.Verdict == "already_done" && outcome.Earlier != "" { // by an attempt of ours
			outcome.Verdict = outcome.Earlier
		}
		byToken[outcome.Token] = outcome
	}
	for _, one := range batch {
		if err != nil {
			one.item.isEnding = false
		} else {
			one.outcome = byToken[one.item.Token]
			w.end(one.item, one.outcome)
			if one.verb == "done" && one.outcome.IsLost() {
				go w.log("item %s was lost before it was done: another worker has it or will", one.item.ID)
			}
		}
		one.end <- err
	}
}

func (w *Worker) renew(item *Item) (Outcome, error) {
	var answer outcomes
	request := map[string]any{"tokens": []string{item.Token}}
	if _, err := w.calls.ask("/v1/renew", request, &answer, w.calls.tryFor(), true); err != nil {
		return Outcome{}, err
	}
	return answer.Outcomes[0], nil
}

// end notes the outcome of an item. The caller has the lock.
func (w *Worker) end(item *Item, outcome Outcome) {
	item.outcome = &outcome
	delete(w.held, item.Token)
	w.changed.Broadcast()
	w.closeIfOver()
}
