-- Keeps an answer.
INSERT INTO told (job, slot, demand, host, at, asked, answer, detail)
VALUES (:job, :slot, :demand, :host, :at, :asked, :answer, :detail)
