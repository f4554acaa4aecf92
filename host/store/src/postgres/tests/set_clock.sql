-- The store's clock as a value that the test sets.
CREATE TABLE public.test_clock (at bigint NOT NULL) WITH (fillfactor = 10);
INSERT INTO public.test_clock VALUES (1700000000000);
CREATE OR REPLACE FUNCTION leasehold.clock() RETURNS bigint
LANGUAGE sql VOLATILE AS $$ SELECT at FROM public.test_clock $$;
